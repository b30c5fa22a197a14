#include <algorithm>
#include <cmath>

#include "sim/memory/ledger.h"
#include "sim/workload/optimizer_cost.h"
#include "sim/workload/step_builder.h"

// What leaves the GPU and comes back: ZeRO-Offload (arXiv 2101.06840), ZeRO-Infinity (arXiv 2104.07857), FSDP's CPU
// offload, activations. Every copy, every parameter updated on the host and every byte of a drive is work on the links,
// cores and drives that all ranks of a host share; how long it takes comes out of the simulation.

namespace foretrain {
namespace {

using Place = Offload::Place;

// Steps of the optimizer beyond which a finer cut changes nothing but the number of tasks.
constexpr double kMostPieces = 256;

TaskKind kind_of(Purpose purpose) {
  switch (purpose) {
    case Purpose::to_host:
      return TaskKind::copy_to_host;
    case Purpose::from_host:
      return TaskKind::copy_from_host;
    case Purpose::nvme_read:
      return TaskKind::nvme_read;
    case Purpose::nvme_write:
      return TaskKind::nvme_write;
    default:
      return TaskKind::host_optimizer;
  }
}

// Parts in which a rank's state is updated: DeepSpeed's sub-groups, else all at once.
double step_pieces(const Case& c, double held) {
  const double group = c.plan.offload.zero_stage == 3 ? c.software.zero3_step_group_parameters : 0;
  if (group <= 0 || held <= group) return 1;
  return std::min(kMostPieces, std::ceil(held / group));
}

}  // namespace

// Issues the same work of every rank of the stage; the task of each rank class comes back.
StepBuilder::PerRank StepBuilder::issue_host(Purpose purpose, double amount,
                                             std::initializer_list<const PerRank*> after, const PipelineOp& op,
                                             bool on_compute_stream) {
  PerRank tasks(ranks_.size());
  const std::size_t stream = static_cast<std::size_t>(purpose) - static_cast<std::size_t>(Purpose::to_host);
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    const std::uint32_t rank = ranks_[r];
    const std::uint32_t communicator = communicators_.find(rank, purpose, Algorithm::direct).value();
    const auto [known, inserted] = host_cost_.try_emplace({communicator, amount});
    if (inserted) {
      known->second =
          communication_cost(communicator, Collective::send, communicators_.host_cost(purpose, amount), 1.0, false);
    }
    tasks[r] = add_task(known->second, {kind_of(purpose), on_compute_stream, communicator, op.micro_batch,
                                        static_cast<std::int16_t>(op.chunk), -1, 0});
    step_.graph.enqueue(on_compute_stream ? compute_[rank] : host_streams_[stream][rank], tasks[r]);
    if (on_compute_stream) step_.compute_tasks[rank].push_back(tasks[r]);
    for (const PerRank* before : after) {
      if (r < before->size() && (*before)[r].valid()) step_.graph.add_dependency((*before)[r], tasks[r]);
    }
  }
  return tasks;
}

bool StepBuilder::updates_on_host() const {
  return case_.plan.offload.optimizer != Place::gpu && case_.software.offload.adam != Software::Offload::Adam::gpu;
}

// Gradients leave after every micro-batch where they are kept on the host, and else once, for the update there.
bool StepBuilder::gradients_leave_in(const PipelineOp& op) const {
  if (op.pass != Pass::backward) return false;
  if (case_.plan.offload.gradients != Place::gpu) return true;
  return updates_on_host() && op.micro_batch == chunk_spans_[static_cast<std::size_t>(op.chunk)].last_gradients;
}

void StepBuilder::copy_gradients_out(double parameters, bool experts, const PerRank& after, const PipelineOp& op) {
  const Offload& offload = case_.plan.offload;
  const bool kept_there = offload.gradients != Place::gpu;
  const double share = kept_there ? 1.0 : offload.of_optimizer();
  const int shards = experts ? case_.plan.expert_shard_ranks() : case_.plan.shard_ranks();
  const double bytes = parameters * share / shards * case_.software.gradient_bytes;
  if (bytes <= 0) return;
  const bool serial = !case_.software.offload.overlap_gradients;
  PerRank ready = after;
  if (kept_there && case_.software.offload.gradients_read_back && op.micro_batch > 0) {
    ready = issue_host(Purpose::from_host, bytes, {&ready}, op, serial);
  }
  ready = issue_host(Purpose::to_host, bytes, {&ready}, op, serial);
  for (std::size_t r = 0; r < ranks_.size(); ++r) gradients_out_[ranks_[r]] = ready[r];
}

// This rank's part of a block's weights comes to the GPU, over host memory if it lies on a drive; after the forward
// pass its part of the group's second copy, where there is one.
StepBuilder::PerRank StepBuilder::fetch_parameters(const Block& block, const PerRank& after, bool on_compute_stream,
                                                   const PipelineOp& op) {
  if (second_copy_on_host(case_) && op.pass != Pass::forward) {
    return issue_host(Purpose::from_host, second_copy_bytes(case_, block), {&after}, op, on_compute_stream);
  }
  const bool whole = case_.software.offload.whole_blocks;
  const double bytes = whole ? whole_offloaded_weight_bytes(case_, block) : offloaded_weight_bytes(case_, block);
  if (bytes <= 0) return after;
  PerRank ready = after;
  if (case_.plan.offload.params == Place::nvme) ready = issue_host(Purpose::nvme_read, bytes, {&ready}, op);
  return issue_host(Purpose::from_host, bytes, {&ready}, op, on_compute_stream);
}

// A step's first gather of a block leaves the group's second copy of it on the host, or every one does.
void StepBuilder::store_second_copy(const Block& block, const PerRank& gathered, bool on_compute_stream,
                                    const PipelineOp& op) {
  if (!second_copy_on_host(case_)) return;
  if (!is_first_forward(op) && !case_.software.zeropp_rewrites_second_copy) return;
  issue_host(Purpose::to_host, second_copy_bytes(case_, block), {&gathered}, op, on_compute_stream);
}

// Bytes that a block's forward pass sends to the host. The very last layer is needed again at once and stays.
double StepBuilder::offloaded_activations(const PipelineOp& op, int block_index) const {
  if (case_.plan.offload.of_activations() <= 0) return 0;
  const auto& blocks =
      step_.layouts[static_cast<std::size_t>(stage_)].chunks[static_cast<std::size_t>(op.chunk)].blocks;
  const Block& block = blocks[static_cast<std::size_t>(block_index)];
  if (block.kind != Block::Kind::layer) return 0;
  const bool last_chunk = stage_ == case_.plan.pp - 1 && op.chunk == case_.plan.vpp - 1;
  const auto behind = blocks.begin() + block_index + 1;
  const bool more = std::any_of(behind, blocks.end(), [](const Block& b) { return b.kind == Block::Kind::layer; });
  if (last_chunk && !more) return 0;
  return offloaded_activations_of_layer(case_of(ranks_.front()), block.recomputed, block.layer).value;
}

bool StepBuilder::offload_needs_blocks(const PipelineOp& op) const {
  const Offload& offload = case_.plan.offload;
  return offload.params != Place::gpu || offload.activations != Place::gpu || gradients_leave_in(op);
}

void StepBuilder::update_offloaded_state(TaskId norm) {
  const Offload& offload = case_.plan.offload;
  PerRank start(ranks_.size()), gradients(ranks_.size());
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    const std::uint32_t rank = ranks_[r];
    start[r] = norm.valid() ? norm : last_task_[rank][pass_index(order_of(rank).back())];
    gradients[r] = gradients_out_[rank];
    if (gradients[r].valid()) step_waits_[rank].push_back(gradients[r]);
  }
  if (offload.paged.value > 0) page_states(start);
  if (offload.optimizer == Place::gpu) return;
  if (updates_on_host())
    update_on_host(start, gradients);
  else
    update_streamed(start);
}

// The host updates its part of the state, part by part: from a drive and back where the state is on one, and the new
// weights return to the GPU unless they live on the host too.
void StepBuilder::update_on_host(const PerRank& start, const PerRank& gradients) {
  const Offload& offload = case_.plan.offload;
  const StageLayout& layout = step_.layouts[static_cast<std::size_t>(stage_)];
  const double held = sharded_parameters(layout, case_.plan) * offload.of_optimizer();
  const double pieces = step_pieces(case_, held), amount = held / pieces;
  const double state = host_state_bytes(case_, layout) * amount;
  const double gradient = case_.software.offload.host_gradient_bytes * amount;
  const PipelineOp op{Pass::backward, -1, -1};
  // With delayed updates the host still works on the last step's gradients while this one computes.
  const PerRank begin = offload.delayed_update ? PerRank{} : start;
  const PerRank arrived = offload.delayed_update ? PerRank{} : gradients;
  PerRank written_before, written;  // what frees a buffer for the next read
  auto ends_with = [&](const PerRank& tasks) {
    for (std::size_t r = 0; r < ranks_.size(); ++r) step_waits_[ranks_[r]].push_back(tasks[r]);
  };
  for (int piece = 0; piece < static_cast<int>(pieces); ++piece) {
    PerRank read;
    const bool on_drive = offload.optimizer == Place::nvme;
    if (on_drive) {
      // The gradients were written beside the states when they came.
      const PerRank stored = issue_host(Purpose::nvme_write, gradient, {&begin, &arrived}, op);
      const PerRank& buffer = case_.software.offload.overlap_nvme ? written_before : written;
      read = issue_host(Purpose::nvme_read, state + gradient, {&begin, &stored, &buffer}, op);
    }
    const PerRank stepped = issue_host(Purpose::host_work, amount, {&begin, &arrived, &read}, op);
    written_before = written;
    written = on_drive ? issue_host(Purpose::nvme_write, state, {&stepped}, op) : stepped;
    ends_with(written);
    const double weights = amount * trained_weight_bytes(case_);
    if (offload.params == Place::nvme) {
      ends_with(issue_host(Purpose::nvme_write, weights, {&stepped}, op));
    } else if (offload.params == Place::gpu) {
      const PerRank back =
          issue_host(Purpose::from_host, amount * element_bytes(case_.train.precision), {&stepped}, op);
      for (std::size_t r = 0; r < ranks_.size(); ++r) updated_[ranks_[r]] = back[r];
      ends_with(back);
    }
  }
}

// Pages of the state that activations pushed out come back for the update, and make room again after it.
void StepBuilder::page_states(const PerRank& start) {
  const double bytes = case_.plan.offload.paged.value;
  const PipelineOp op{Pass::backward, -1, -1};
  const PerRank here = issue_host(Purpose::from_host, bytes, {&start}, op);
  PerRank updated;
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    updated.push_back(optimizer_[ranks_[r]]);
    step_.graph.add_dependency(here[r], updated[r]);
  }
  const PerRank gone = issue_host(Purpose::to_host, bytes, {&updated}, op);
  for (std::size_t r = 0; r < ranks_.size(); ++r) step_waits_[ranks_[r]].push_back(gone[r]);
}

// fp8 copies in host memory are made of the masters there, which cross to the GPU once more before the next step's
// first passes (llm.q, src/models/llama_weights.cpp: gather_block quantises what has a new version).
void StepBuilder::quantise_masters(double parameters, const PerRank& written) {
  if (case_.plan.offload.params == Place::gpu || !has_fp8_copies(case_)) return;
  const PipelineOp op{Pass::backward, -1, -1};
  const double masters = parameters * element_bytes(case_.train.precision);
  const PerRank read = issue_host(Purpose::from_host, masters, {&written}, op);
  const PerRank stored = issue_host(Purpose::to_host, parameters * case_.software.fp8_weight_copy_bytes, {&read}, op);
  for (std::size_t r = 0; r < ranks_.size(); ++r) step_waits_[ranks_[r]].push_back(stored[r]);
}

// The GPU updates state that comes from the host and returns there, block by block through two buffers.
void StepBuilder::update_streamed(const PerRank& start) {
  const Offload& offload = case_.plan.offload;
  const StageLayout& layout = step_.layouts[static_cast<std::size_t>(stage_)];
  double blocks = 0;
  for (const Chunk& chunk : layout.chunks) blocks += static_cast<double>(chunk.blocks.size());
  const double pieces = std::clamp(blocks, 1.0, kMostPieces);
  const double amount = sharded_parameters(layout, case_.plan) * offload.of_optimizer() / pieces;
  const double state = amount * host_state_bytes(case_, layout);
  const double gradient = offload.gradients == Place::gpu ? 0 : amount * case_.software.offload.host_gradient_bytes;
  std::vector<std::uint32_t> compositions;
  std::vector<engine::CostId> costs;
  for (std::uint32_t rank : ranks_) {
    const double share = offload.of_optimizer() / pieces;
    const Composition work = at_speed(optimizer_work(case_of(rank), layout, share, 0.0), speed_of(rank));
    compositions.push_back(add_composition(work));
    costs.push_back(constant_cost(work.total()));
  }
  const PipelineOp op{Pass::backward, -1, -1};
  PerRank before_last, last;
  for (int piece = 0; piece < static_cast<int>(pieces); ++piece) {
    const PerRank here = issue_host(Purpose::from_host, state + gradient, {&start, &before_last}, op);
    PerRank stepped(ranks_.size());
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      const std::uint32_t rank = ranks_[r];
      stepped[r] = add_task(costs[r], {TaskKind::optimizer, true, rank, -1, -1, -1, compositions[r]});
      step_.graph.enqueue(compute_[rank], stepped[r]);
      step_.compute_tasks[rank].push_back(stepped[r]);
      step_.graph.add_dependency(here[r], stepped[r]);
      updated_[rank] = stepped[r];
    }
    before_last = last;
    last = issue_host(Purpose::to_host, state, {&stepped}, op);
    for (std::size_t r = 0; r < ranks_.size(); ++r) step_waits_[ranks_[r]].push_back(last[r]);
  }
  quantise_masters(amount * pieces, last);
}

}  // namespace foretrain
