#include <algorithm>
#include <cmath>

#include "sim/engine/work_duration.h"
#include "sim/workload/step_builder.h"

// What passes over blocks cost as tasks: their make-up, alone and beside other work, and the collectives that cut them.

namespace foretrain {
namespace {

// Transfers that meet share a link by the bytes each rank sends. A collective's kernel holds its SMs for as long as it
// runs and a compute kernel gets the rest (one channel is one resident thread block: NVIDIA/nccl issues 689, 1656), so
// transfers fill before compute: a picosecond of kernel weighs more than any link's bytes a second.
constexpr double kTransferShare = 1.0;
constexpr double kComputeShare = 1e6;

}  // namespace

Composition composition_of(const KernelTime& time) {
  Composition c;
  c[Part::matmul] = to_time(time.matmul);
  c[Part::memory] = to_time(time.memory);
  c[Part::kernel_latency] = to_time(time.latency);
  return c;
}

engine::CostId StepBuilder::communication_cost(std::uint32_t communicator, Collective op, const CollectiveCost& cost,
                                               double exposed, bool takes_sms) {
  const Communicator& c = communicators_.all()[communicator];
  std::vector<engine::ResourceUse> uses;
  for (const Communicator::LinkUse& use : c.uses) uses.push_back({link_[use.link], use.bytes_per_unit});
  // At the rate it reaches on idle links the kernel takes its share of the SMs.
  if (takes_sms && std::isfinite(cost.cap.value)) {
    for (std::uint32_t member : c.rank_classes) {
      const double sm_share = case_of(member).cluster.gpu.achieved.collective_sm_share;
      if (sm_share > 0) uses.push_back({sms_[member], sm_share * kPicosecondsPerSecond / cost.cap.value});
    }
  }
  const engine::CostId id = step_.graph.add_cost(to_time(cost.latency * exposed), cost.wire_bytes.value * exposed,
                                                 cost.cap.value, uses, kTransferShare);
  step_.collective_of_cost.resize(id.index() + 1, Collective::send);
  step_.collective_of_cost[id.index()] = op;
  return id;
}

Time StepBuilder::idle_duration(std::uint32_t communicator, const CollectiveCost& cost, double exposed) const {
  double rate = cost.cap.value;
  for (const Communicator::LinkUse& use : communicators_.all()[communicator].uses) {
    rate = std::min(rate, communicators_.links()[use.link].rate / use.bytes_per_unit);
  }
  return to_time(cost.latency * exposed) + engine::work_duration(cost.wire_bytes.value * exposed, rate);
}

// How the stage's communicators do a collective inside a layer, each with the share of it that is exposed.
const std::vector<StepBuilder::PreparedStep::Join>& StepBuilder::joins(const LayerStep::GroupCollective& collective) {
  const std::array key = {static_cast<double>(collective.purpose), static_cast<double>(collective.op),
                          collective.bytes.value, collective.exposed, collective.beside.value};
  const auto [known, inserted] = collective_costs_.try_emplace(key);
  std::vector<PreparedStep::Join>& found = known->second;
  if (!inserted) return found;
  for (std::uint32_t rank : ranks_) {
    const CollectiveCost cost = communicators_.cost(rank, collective.purpose, collective.op, collective.bytes);
    const auto communicator = communicators_.find(rank, collective.purpose, cost.algorithm);
    const auto same = [&](const PreparedStep::Join& join) { return join.communicator == *communicator; };
    if (!communicator || std::any_of(found.begin(), found.end(), same)) continue;
    double exposed = collective.exposed;
    if (collective.beside.value > 0) {
      exposed = std::max(exposed, 1.0 - collective.beside.value / idle_duration(*communicator, cost, 1.0).seconds());
    }
    found.push_back({*communicator, communication_cost(*communicator, collective.op, cost, exposed, false),
                     idle_duration(*communicator, cost, exposed)});
  }
  return found;
}

// The collective that ends a step of a pass. Members of a group leave it together, so where their kernels differ it is
// hidden as far as under the shortest of them.
LayerStep::GroupCollective StepBuilder::collective_of_all(const PassOfKind& pass, std::size_t step) const {
  std::optional<LayerStep::GroupCollective> shared;
  for (std::uint32_t rank : ranks_) {
    LayerStep::GroupCollective own = *pass[kind_[rank]]->steps[step].collective;
    own.beside *= 1.0 / speed_of(rank);
    if (!shared) shared = own;
    shared->exposed = std::max(shared->exposed, own.exposed);
    shared->beside = std::min(shared->beside, own.beside);
  }
  return *shared;
}

// Cuts a pass over a block into tasks' worth of work. What the host needs beyond the device's time goes to the first.
StepBuilder::PreparedBlock StepBuilder::prepare(const PassOfKind& pass, TaskKind collective_kind) {
  PreparedBlock block;
  std::vector<Time> device(ranks_.size());
  for (std::size_t i = 0; i < pass.front()->steps.size(); ++i) {
    PreparedStep step;
    step.collective_kind = collective_kind;
    for (std::uint32_t rank : ranks_) {
      const LayerStep& layer_step = pass[kind_[rank]]->steps.at(i);
      if (with_pieces_) step.kernels.push_back(layer_step.compute);
      Composition compute = composition_of(layer_step.compute.time() * (1.0 / speed_of(rank)));
      compute[Part::straggler] = Time::from_seconds(compute.total().seconds() * straggler_share_);
      step.compute.push_back(compute);
    }
    if (pass.front()->steps[i].collective) {
      const LayerStep::GroupCollective collective = collective_of_all(pass, i);
      const Purpose purpose = collective.purpose;
      if (purpose == Purpose::context) step.collective_kind = TaskKind::context_collective;
      if (purpose == Purpose::expert || purpose == Purpose::expert_tensor)
        step.collective_kind = TaskKind::expert_collective;
      step.collectives = joins(collective);
    }
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      device[r] += step.compute[r].total();
      for (const PreparedStep::Join& join : step.collectives) {
        const auto& members = communicators_.all()[join.communicator].rank_classes;
        if (std::find(members.begin(), members.end(), ranks_[r]) != members.end()) device[r] += join.duration;
      }
    }
    block.push_back(std::move(step));
  }
  if (block.empty()) return block;
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    const BlockPass& own = *pass[kind_[ranks_[r]]];
    const Time host = to_time(own.host);
    if (host > device[r]) block.front().compute[r][Part::launch] += host - device[r];
    block.front().compute[r][Part::launch] += to_time(own.stall);
  }
  for (PreparedStep& step : block) {
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      const Time total = step.compute[r].total();
      step.has_compute = step.has_compute || total > Time::zero();
      const engine::ResourceUse sms{sms_[ranks_[r]], 1.0};
      step.alone.push_back(constant_cost(total));
      step.contended.push_back(step_.graph.add_cost(Time::zero(), static_cast<double>(total.ps), kPicosecondsPerSecond,
                                                    std::span(&sms, 1), kComputeShare));
      step.composition.push_back(add_composition(step.compute[r]));
      if (with_pieces_) step_.pieces.back() = pieces_of(step, r);
    }
  }
  return block;
}

const StepBuilder::PreparedBlock& StepBuilder::prepared(const Block& block, Pass pass) {
  const std::array key = {static_cast<int>(block.kind), static_cast<int>(block.recomputed), static_cast<int>(pass),
                          block.layer.index()};
  const auto known = prepared_.find(key);
  if (known != prepared_.end()) return known->second;
  PassOfKind work;
  for (const RankKind& kind : kinds_) {
    switch (block.kind) {
      case Block::Kind::embedding:
        work.push_back(&kind.costs.embedding(pass));
        break;
      case Block::Kind::head:
        work.push_back(&kind.costs.head(pass));
        break;
      case Block::Kind::layer:
        work.push_back(&kind.costs.layer(block.layer, pass, block.recomputed));
        break;
    }
  }
  return prepared_.emplace(key, prepare(work, TaskKind::tensor_collective)).first->second;
}

// A boundary tensor that was sent in tp pieces is put together by an all-gather before the pass can start.
const StepBuilder::PreparedBlock& StepBuilder::prepared_gather() {
  if (!prepared_gather_) {
    const double bytes = boundary_elements(ranks_.front()) * element_bytes(case_.train.precision);
    BlockPass gather;
    gather.steps.push_back(
        {{}, LayerStep::GroupCollective{Purpose::tensor, Collective::all_gather, {bytes}, 1.0, {0}}});
    prepared_gather_ = prepare(PassOfKind(kinds_.size(), &gather), TaskKind::pipeline_gather);
  }
  return *prepared_gather_;
}

// What a stretch of kernels consists of: its kernels, each rounded so that they add up, and what it waits for.
std::vector<TaskPiece> StepBuilder::pieces_of(const PreparedStep& step, std::size_t rank) const {
  std::vector<TaskPiece> pieces;
  const auto add = [&](const char* of, const char* what, Time duration) {
    if (duration > Time::zero()) pieces.push_back({-1, of, what, duration});
  };
  const Composition& compute = step.compute[rank];
  const Time whole = compute[Part::matmul] + compute[Part::memory] + compute[Part::kernel_latency];
  double until = 0;
  Time begin;
  const std::vector<Kernel>& kernels = step.kernels[rank].kernels();
  for (const Kernel& kernel : kernels) {
    until += kernel.time.total().value / speed_of(ranks_[rank]);
    const Time end = std::min(whole, Time::from_seconds(until));
    const bool last = &kernel == &kernels.back();
    add(kernel.of, kernel.what, (last ? whole : end) - begin);
    begin = end;
  }
  add("waiting for", "kernel launches", compute[Part::launch]);
  add("waiting for", "the slowest rank", compute[Part::straggler]);
  return pieces;
}

// The pieces of a pass in one task, block after block.
std::vector<TaskPiece> StepBuilder::contracted_pieces(const PipelineOp& op, std::size_t rank) {
  std::vector<TaskPiece> pieces;
  const auto add = [&](const PreparedBlock& block, std::size_t index) {
    for (const PreparedStep& step : block) {
      for (TaskPiece piece : pieces_of(step, rank)) {
        piece.block = static_cast<std::int16_t>(index);
        pieces.push_back(piece);
      }
      for (const PreparedStep::Join& join : step.collectives) {
        const Communicator& group = communicators_.all()[join.communicator];
        const auto& members = group.rank_classes;
        if (std::find(members.begin(), members.end(), ranks_[rank]) == members.end()) continue;
        const Collective collective = step_.collective_of_cost[join.cost.index()];
        pieces.push_back(
            {static_cast<std::int16_t>(index), to_string(group.purpose), to_string(collective), join.duration});
      }
    }
  };
  if (receives_pieces(op)) add(prepared_gather(), static_cast<std::size_t>(-1));
  const auto& blocks =
      step_.layouts[static_cast<std::size_t>(stage_)].chunks[static_cast<std::size_t>(op.chunk)].blocks;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const std::size_t index = op.pass == Pass::forward ? i : blocks.size() - 1 - i;
    add(prepared(blocks[index], op.pass), index);
  }
  return pieces;
}

// The sum of a pass's tasks, with its collectives at their duration on idle links.
const StepBuilder::ContractedPass& StepBuilder::contracted(const PipelineOp& op) {
  const std::array key = {static_cast<int>(op.chunk), static_cast<int>(op.pass)};
  const auto known = contracted_.find(key);
  if (known != contracted_.end()) return known->second;

  std::vector<Composition> sums(ranks_.size());
  auto add = [&](const PreparedBlock& block) {
    for (const PreparedStep& step : block) {
      Part latency_part = Part::tensor_latency, transfer_part = Part::tensor_transfer;
      if (step.collective_kind == TaskKind::context_collective) {
        latency_part = Part::context_latency, transfer_part = Part::context_transfer;
      } else if (step.collective_kind == TaskKind::expert_collective) {
        latency_part = Part::expert_latency, transfer_part = Part::expert_transfer;
      } else if (step.collective_kind == TaskKind::pipeline_gather) {
        latency_part = Part::pipeline_latency, transfer_part = Part::pipeline_transfer;
      }
      for (std::size_t r = 0; r < ranks_.size(); ++r) {
        sums[r] += step.compute[r];
        for (const PreparedStep::Join& join : step.collectives) {
          const auto& members = communicators_.all()[join.communicator].rank_classes;
          if (std::find(members.begin(), members.end(), ranks_[r]) == members.end()) continue;
          const Time latency = step_.graph.cost(join.cost).latency;
          sums[r][latency_part] += latency;
          sums[r][transfer_part] += join.duration - latency;
        }
      }
    }
  };
  if (receives_pieces(op)) add(prepared_gather());
  const auto& blocks =
      step_.layouts[static_cast<std::size_t>(stage_)].chunks[static_cast<std::size_t>(op.chunk)].blocks;
  for (const Block& block : blocks) add(prepared(block, op.pass));

  ContractedPass pass;
  for (const Composition& sum : sums) {
    pass.cost.push_back(constant_cost(sum.total()));
    pass.composition.push_back(add_composition(sum));
    if (with_pieces_) step_.pieces.back() = contracted_pieces(op, pass.composition.size() - 1);
  }
  return contracted_.emplace(key, std::move(pass)).first->second;
}

}  // namespace foretrain
