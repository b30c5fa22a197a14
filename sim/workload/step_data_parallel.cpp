#include <algorithm>
#include <limits>
#include <stdexcept>
#include <vector>

#include "sim/workload/optimizer_cost.h"
#include "sim/workload/step_builder.h"

namespace foretrain {

namespace {

// Bytes of what ZeRO++ sends, an element; scales are a few bytes for thousands of elements.
constexpr double kInt8 = 1, kInt4 = 0.5;
// Kernels that bring a bucket of gradients to a reduction: its copy, the division, the other order.
constexpr double kBucketKernels = 3;

// Within one group DeepSpeed scatters 16 bits whatever was asked for (runtime/zero/stage3.py).
bool scatters_int4(const Plan& plan) { return plan.zeropp.gradients && plan.zeropp.group < plan.shard_ranks(); }

}  // namespace

bool reduces_every_micro_batch(const Case& c) {
  return (c.plan.zero == 3 && !gathers_once(c) && !c.software.zero3_accumulates_whole) ||
         (c.plan.zero == 2 && c.software.zero2_reduce_each_micro_batch);
}

bool gathers_once(const Case& c) { return c.plan.zero == 3 && c.plan.pp > 1; }

double StepBuilder::bucket_bytes() const {
  return case_.software.gradient_bucket_bytes(case_.plan.data_ranks(), case_.plan.overlap.grad_reduce);
}

// What ZeRO-3 gathers of a block's experts, or of the rest: everything that is sharded, frozen or not; quantised
// weights as they are stored.
Bytes StepBuilder::gathered_bytes(const Parameters& held, Block::Kind kind) const {
  if (case_.plan.zeropp.weights) return {held.total() * kInt8};
  const WeightFormat* format = case_.train.peft.format;
  const double quantised = format == nullptr ? 0 : held.quantised * format->stored_bytes;
  const double rest = held.total() - held.quantised;
  return {gathered_weight_bytes(case_.train, rest, kind == Block::Kind::layer ? rest : 0) + quantised};
}

// Whether parameters are shared with other ranks, experts or the rest.
bool StepBuilder::has_data_traffic() const {
  const Plan& plan = case_.plan;
  return plan.data_ranks() > 1 || (case_.model.experts > 0 && plan.expert_data_ranks() > 1);
}

bool StepBuilder::has_shards() const {
  const Plan& plan = case_.plan;
  return plan.shard_ranks() > 1 || (case_.model.experts > 0 && plan.expert_shard_ranks() > 1);
}

bool StepBuilder::reduces_in(const PipelineOp& op) const {
  const Plan& plan = case_.plan;
  if (!has_data_traffic() || op.pass == Pass::forward || op.pass == Pass::input_gradient) return false;
  if (plan.zero < 3 && !plan.overlap.grad_reduce && !reduces_every_micro_batch(case_)) return false;
  return reduces_every_micro_batch(case_) ||
         op.micro_batch == chunk_spans_[static_cast<std::size_t>(op.chunk)].last_gradients;
}

// Of kernels that quantise what a collective of ZeRO++ sends and make 16 bits of what it brings (arXiv 2306.10209,
// sections 3.1 and 3.3), bytes that they move: a gather reads and writes the rank's part and then all of it; a scatter
// does so with all it sends, sums up the pieces that arrive, and writes what is left of them.
Bytes StepBuilder::conversion_bytes(Purpose purpose, Collective op, Bytes sent) const {
  const Plan& plan = case_.plan;
  const double element = element_bytes(case_.train.precision), gradient = case_.software.gradient_bytes;
  const bool of_group = purpose == Purpose::local;
  if (op == Collective::all_gather) {
    const double elements = plan.zeropp.weights ? sent.value / kInt8 : 0;
    const double ranks = of_group ? plan.zeropp.group : plan.shard_ranks();
    return {elements * (1 + 1 / ranks) * (element + kInt8)};
  }
  const double elements = sent.value / kInt4;
  const double groups = static_cast<double>(plan.shard_ranks()) / plan.zeropp.group;
  if (!of_group) return {elements * (kInt4 + gradient / groups)};
  return {elements * (gradient + kInt4 + kInt4 + kInt4 / plan.zeropp.group)};
}

// What a data-parallel collective costs the way the framework does it.
CollectiveCost StepBuilder::data_parallel_cost(std::uint32_t rank, Purpose purpose, Collective op, Bytes bytes,
                                               TaskKind kind) const {
  const Software& software = case_.software;
  if (kind == TaskKind::parameter_gather && software.zero1_return_by_broadcast) {
    // Every rank broadcasts its part in turn. One follows the other through the ring's pipeline, so each pays the
    // latency of a small message and only the first the filling of the pipeline.
    const double ranks = case_.plan.shard_ranks();
    CollectiveCost cost = communicators_.cost(rank, purpose, Collective::broadcast, bytes / ranks);
    cost.latency += communicators_.cost(rank, purpose, Collective::broadcast, {8.0}).latency * (ranks - 1);
    cost.wire_bytes *= ranks;
    return cost;
  }
  CollectiveCost cost = communicators_.cost(rank, purpose, op, bytes);
  const Gpu& gpu = case_of(rank).cluster.gpu;
  const bool of_replicas = purpose == Purpose::replica || purpose == Purpose::expert_replica;
  if (kind == TaskKind::gradient_reduce && case_.plan.zero > 0 && !of_replicas && !scatters_int4(case_.plan)) {
    const double gradients = bytes.value / software.gradient_bytes;
    const Bytes copied{gradients * software.zero_bucket_copy_bytes};
    if (copied.value > 0) cost.latency += streaming_time(gpu, copied, kBucketKernels).total();
  }
  const bool converts = kind == TaskKind::shard_gather ? case_.plan.zeropp.weights
                                                       : purpose == Purpose::local || purpose == Purpose::across;
  if (converts) cost.latency += streaming_time(gpu, conversion_bytes(purpose, op, bytes), 2).total();
  if (case_.plan.zero == 3 && software.zero3_single_network_flow) {
    cost.cap = std::min(cost.cap, communicators_.one_nic(rank, purpose));
  }
  return cost;
}

// Members of a group join its collectives in the order in which they issue them: the n-th call of every crew is one
// task, made by the crew that comes first.
engine::TaskId StepBuilder::meet(std::uint32_t communicator, engine::CostId cost, const TaskInfo& info) {
  if (case_.plan.shares.empty()) return add_task(cost, info);
  Meetings& meetings = meetings_[communicator];
  const std::size_t call = meetings.joined[crew_]++;
  if (call == meetings.tasks.size()) meetings.tasks.push_back(add_task(cost, info));
  return meetings.tasks[call];
}

void StepBuilder::check_that_all_met() const {
  for (const auto& [communicator, meetings] : meetings_) {
    for (std::uint32_t member : communicators_.all()[communicator].rank_classes) {
      const auto joined = meetings.joined.find(crew_of_[member]);
      if (joined != meetings.joined.end() && joined->second == meetings.tasks.size()) continue;
      throw std::logic_error("members of a group issue different numbers of collectives");
    }
  }
}

// Issues one collective on every communicator of the crew; the task of each rank class comes back. `after` holds what
// each rank class must have done before (nothing where invalid).
StepBuilder::PerRank StepBuilder::issue_collective(Purpose purpose, Collective op, Bytes bytes, TaskKind kind,
                                                   const PerRank& after, bool on_compute_stream,
                                                   const PipelineOp& op_of) {
  PerRank tasks(ranks_.size());
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    if (tasks[r].valid()) continue;
    const CollectiveCost cost = data_parallel_cost(ranks_[r], purpose, op, bytes, kind);
    const auto communicator = communicators_.find(ranks_[r], purpose, cost.algorithm);
    if (!communicator) continue;
    const TaskId task = meet(
        *communicator, communication_cost(*communicator, op, cost, 1.0, !on_compute_stream),
        {kind, on_compute_stream, *communicator, op_of.micro_batch, static_cast<std::int16_t>(op_of.chunk), -1, 0});
    const auto& members = communicators_.all()[*communicator].rank_classes;
    for (std::size_t other = 0; other < ranks_.size(); ++other) {
      if (std::find(members.begin(), members.end(), ranks_[other]) == members.end()) continue;
      tasks[other] = task;
      const std::uint32_t rank = ranks_[other];
      step_.graph.enqueue(on_compute_stream ? compute_[rank] : data_[rank], task);
      if (on_compute_stream) step_.compute_tasks[rank].push_back(task);
      if (other < after.size() && after[other].valid()) step_.graph.add_dependency(after[other], task);
    }
  }
  return tasks;
}

void StepBuilder::reduce_gradients(double parameters, bool experts, const PerRank& after, const PipelineOp& op) {
  const Plan& plan = case_.plan;
  const Bytes bytes{parameters * case_.software.gradient_bytes};
  // What is reduced within a micro-batch without overlap holds up the compute stream.
  const bool serial = (plan.zero == 3 && !case_.software.zero3_overlap) ||
                      (plan.zero == 2 && !plan.overlap.grad_reduce && reduces_every_micro_batch(case_));
  auto issue = [&](Purpose purpose, Collective collective, Bytes amount) {
    const PerRank tasks = issue_collective(purpose, collective, amount, TaskKind::gradient_reduce, after, serial, op);
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      if (tasks[r].valid()) reduced_[ranks_[r]] = tasks[r];
    }
  };
  if (scatters_int4(plan)) {
    // All-to-alls, of which every rank sends and receives as much as in a scatter along a ring.
    const Bytes quantised{parameters * kInt4};
    issue(Purpose::local, Collective::reduce_scatter, quantised);
    issue(Purpose::across, Collective::reduce_scatter, quantised / plan.zeropp.group);
  } else if (case_.software.reduces_whole_gradients(plan.zero)) {
    issue(experts ? Purpose::expert_data : Purpose::data, Collective::all_reduce, bytes);
  } else {
    const int shards = experts ? plan.expert_shard_ranks() : plan.shard_ranks();
    issue(experts ? Purpose::expert_shard : Purpose::shard, Collective::reduce_scatter, bytes);
    if (shards < (experts ? plan.expert_data_ranks() : plan.data_ranks()))
      issue(experts ? Purpose::expert_replica : Purpose::replica, Collective::all_reduce, bytes / shards);
  }
  if (!gradients_leave_in(op)) return;
  PerRank reduced;
  for (std::uint32_t rank : ranks_) reduced.push_back(reduced_[rank]);
  copy_gradients_out(parameters, experts, reduced, op);
}

// Gradients that do not hide under the backward pass are reduced when the last one has ended.
void StepBuilder::finish_reductions() {
  const Plan& plan = case_.plan;
  if (!has_data_traffic() || plan.overlap.grad_reduce || reduces_every_micro_batch(case_)) return;
  const PipelineOp& last = crews_[crew_].order.back();
  PerRank ends(ranks_.size());
  for (std::size_t r = 0; r < ranks_.size(); ++r) ends[r] = last_task_[ranks_[r]][pass_index(last)];
  for (const GradientBucket& bucket : buckets_) {
    reduce_gradients(bucket.parameters, bucket.experts, ends, last);
  }
}

// Parameters come back in buckets as the gradients went, or all at once by one broadcast a rank.
std::vector<GradientBucket> StepBuilder::gather_buckets() const {
  const double size =
      case_.software.zero1_return_by_broadcast ? std::numeric_limits<double>::infinity() : bucket_bytes();
  return gradient_buckets(step_.layouts[static_cast<std::size_t>(stage_)], case_.software.gradient_bytes, size);
}

// ZeRO-1 and -2 update a shard each and gather the parameters back, in buckets as the gradients. With overlap the
// gather of a step runs beside the next step's first forward passes: a step in the steady state starts with it.
void StepBuilder::issue_parameter_gathers_before_forward() {
  gathered_.clear();
  const Plan& plan = case_.plan;
  const bool gathers = (plan.zero == 1 || plan.zero == 2) && has_shards();
  if (!gathers || !plan.overlap.param_gather) return;
  const StageLayout& layout = step_.layouts[static_cast<std::size_t>(stage_)];
  for (const Chunk& chunk : layout.chunks) gathered_.emplace_back(chunk.blocks.size());
  // A bucket closes at its first block in forward order; blocks behind it belong to it until the next bucket's.
  const std::vector<GradientBucket> buckets = gather_buckets();
  for (auto bucket = buckets.rbegin(); bucket != buckets.rend(); ++bucket) {
    const Bytes bytes{gathered_weight_bytes(case_.train, bucket->parameters, bucket->of_layers)};
    gathered_[static_cast<std::size_t>(bucket->chunk)][static_cast<std::size_t>(bucket->block)].push_back(
        issue_collective(bucket->experts ? Purpose::expert_shard : Purpose::shard, Collective::all_gather, bytes,
                         TaskKind::parameter_gather, {}, false, {Pass::forward, 0, bucket->chunk, false}));
  }
}

// The last gather of each rank class; nothing where none is issued.
StepBuilder::PerRank StepBuilder::gather_parameters_after_step(const PerRank& after) {
  const Plan& plan = case_.plan;
  const bool gathers = (plan.zero == 1 || plan.zero == 2) && has_shards();
  PerRank last(ranks_.size());
  if (!gathers || plan.overlap.param_gather) return last;
  for (const GradientBucket& bucket : gather_buckets()) {
    const Bytes bytes{gathered_weight_bytes(case_.train, bucket.parameters, bucket.of_layers)};
    const PerRank tasks =
        issue_collective(bucket.experts ? Purpose::expert_shard : Purpose::shard, Collective::all_gather, bytes,
                         TaskKind::parameter_gather, after, false, {Pass::forward, -1, -1, false});
    for (std::size_t r = 0; r < tasks.size(); ++r) {
      if (tasks[r].valid()) last[r] = tasks[r];
    }
  }
  return last;
}

void StepBuilder::finish_step() {
  // The norm needs every gradient of every rank, and so does it to know that none overflowed the range of fp16: a
  // synchronisation of the whole job, as long as a tiny all-reduce.
  TaskId norm;
  const bool needs_all = case_.train.clip_gradients || case_.train.precision == Precision::fp16;
  if (needs_all && case_.plan.gpus() > 1 && !step_.staggered) {
    norm = add_task(constant_cost(to_time(communicators_.job_wide_latency())),
                    {TaskKind::gradient_norm, false, 0, -1, -1, -1, 0});
  }
  for (std::uint32_t rank = 0; rank < compute_.size(); ++rank) {
    const auto stage = static_cast<std::size_t>(step_.stage[rank]);
    std::vector<TaskId> waits = {last_task_[rank][pass_index(order_of(rank).back())]};
    if (reduced_[rank].valid()) waits.push_back(reduced_[rank]);
    const Composition work = at_speed(optimizer_work(case_of(rank), step_.layouts[stage]), speed_of(rank));
    const TaskId optimizer =
        add_task(constant_cost(work.total()), {TaskKind::optimizer, true, rank, -1, -1, -1, add_composition(work)});
    step_.graph.enqueue(compute_[rank], optimizer);
    step_.compute_tasks[rank].push_back(optimizer);
    for (TaskId wait : waits) step_.graph.add_dependency(wait, norm.valid() ? norm : optimizer);
    for (TaskId tie : tied_[rank]) step_.graph.add_dependency(tie, norm.valid() ? norm : optimizer);
    if (norm.valid()) step_.graph.add_dependency(norm, optimizer);
    optimizer_.push_back(optimizer);
  }
  // What the host does once a step (logging, data, schedulers) comes when the optimizer's call has returned.
  std::vector<TaskId> returned(compute_.size());
  for (std::size_t crew = 0; crew < crews_.size(); ++crew) {
    take(crew);
    update_offloaded_state(norm);
    PerRank optimizers;
    for (std::uint32_t rank : ranks_) optimizers.push_back(updated_[rank].valid() ? updated_[rank] : optimizer_[rank]);
    const PerRank gathered = gather_parameters_after_step(optimizers);
    for (std::size_t r = 0; r < ranks_.size(); ++r) returned[ranks_[r]] = gathered[r];
  }
  Composition overhead;
  overhead[Part::other] = to_time({case_.software.step_overhead_ms * 1e-3});
  const std::uint32_t overhead_id = add_composition(overhead);
  const engine::CostId overhead_cost = constant_cost(overhead.total());
  for (std::uint32_t rank = 0; rank < compute_.size(); ++rank) {
    const TaskId task = add_task(overhead_cost, {TaskKind::step_overhead, true, rank, -1, -1, -1, overhead_id});
    step_.graph.enqueue(compute_[rank], task);
    step_.compute_tasks[rank].push_back(task);
    if (returned[rank].valid()) step_.graph.add_dependency(returned[rank], task);
    for (TaskId wait : step_waits_[rank]) step_.graph.add_dependency(wait, task);
  }
}

}  // namespace foretrain
