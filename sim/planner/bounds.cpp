#include "sim/planner/bounds.h"

#include <algorithm>
#include <cmath>

#include "sim/planner/bound_durations.h"
#include "sim/workload/optimizer_cost.h"
#include "sim/workload/step_builder.h"

namespace foretrain {
namespace {

// Where a chain of several durations is cut or joined by the engine it rounds to whole picoseconds.
constexpr double kRounding = 1e-9;

// Two ways through the pipeline at once: a pass may run as one with the next, and either end may begin.
bool two_ways(const Plan& plan) {
  return plan.schedule == PipelineSchedule::dualpipe || plan.schedule == PipelineSchedule::dualpipe_v;
}

}  // namespace

PlanBounds::PlanBounds(Case subject, const Cluster& cluster, const CollectiveConstants& constants,
                       const HostRates& hosts)
    : cases_(static_cast<std::size_t>(subject.cluster.kinds()), subject),
      case_(cases_.front()),
      global_batch_(subject.train.global_batch),
      cluster_(cluster),
      constants_(constants),
      hosts_(hosts),
      groups_(cluster) {
  for (std::size_t kind = 0; kind < cases_.size(); ++kind) {
    cases_[kind].cluster.gpu = subject.cluster.gpu_of_kind(static_cast<int>(kind));
  }
  std::vector<int> everyone(static_cast<std::size_t>(cluster.gpu_count()));
  for (std::size_t i = 0; i < everyone.size(); ++i) everyone[i] = static_cast<int>(i);
  if (case_.train.clip_gradients && everyone.size() > 1) {
    const GroupShape& all = groups_.shape(everyone);
    norm_ = to_time(collective_cost(Collective::all_reduce, {8.0}, all, cluster, constants).latency);
  }
  straggler_share_ = case_.software.jitter_per_doubling * std::log2(cluster.gpu_count());
}

// A collective whose group is not known here counts as nothing.
Time PlanBounds::collective_time(const LayerStep::GroupCollective& collective, const StageKind& kind) const {
  const GroupShape* group = kind.group(collective.purpose);
  if (group == nullptr) return Time::zero();
  const CollectiveCost cost = collective_cost(collective.op, collective.bytes, *group, cluster_, constants_);
  double exposed = collective.exposed;
  if (collective.beside.value > 0) {
    exposed = std::max(exposed, 1.0 - collective.beside.value / kind.speed / duration(cost).seconds());
  }
  return duration(cost, exposed);
}

// Of one rank; the host's time counts where it is longer.
Time PlanBounds::block_time(const BlockPass& pass, const StageKind& kind) const {
  Time device;
  for (const LayerStep& step : pass.steps) {
    const KernelTime compute = kind.speed == 1.0 ? step.compute.time() : step.compute.time() * (1.0 / kind.speed);
    const Time kernels = to_time(compute.matmul) + to_time(compute.memory) + to_time(compute.latency);
    device += kernels + Time::from_seconds(kernels.seconds() * straggler_share_);
    if (step.collective) device += collective_time(*step.collective, kind);
  }
  return pass.steps.empty() ? device : std::max(device, to_time(pass.host)) + to_time(pass.stall);
}

Time PlanBounds::chunk_time(const std::vector<Run>& chunk, Pass pass, const StageKind& kind) {
  const LayerCosts& cost = costs(kind.gpu);
  Time sum;
  for (const Run& run : chunk) {
    const BlockPass* work = nullptr;
    switch (run.block.kind) {
      case Block::Kind::embedding:
        work = &cost.embedding(pass);
        break;
      case Block::Kind::head:
        work = &cost.head(pass);
        break;
      case Block::Kind::layer:
        work = &cost.layer(run.block.layer, pass, run.block.recomputed);
        break;
    }
    sum += block_time(*work, kind) * run.count;
  }
  return sum;
}

PlanBounds::PassTimes PlanBounds::pass_times(const StageKind& kind) {
  PassTimes times;
  for (std::size_t c = 0; c < kind.chunks.size(); ++c) {
    const Time forward = chunk_time(kind.chunks[c], Pass::forward, kind);
    Time backward = chunk_time(kind.chunks[c], Pass::backward, kind);
    if (splits_backward(case_.plan.schedule)) {
      backward = std::min(backward, chunk_time(kind.chunks[c], Pass::input_gradient, kind) +
                                        chunk_time(kind.chunks[c], Pass::weight_gradient, kind));
    }
    if (c == 0) times.first_forward = forward, times.first_backward = backward;
    times.all += forward + backward;
    times.last_backward += backward;
  }
  return times;
}

// Either copy of the model takes half of the micro-batches.
std::int64_t PlanBounds::passes_of_a_chunk() const {
  return micro_batches(case_.plan, case_.train) / (case_.plan.schedule == PipelineSchedule::dualpipe ? 2 : 1);
}

double PlanBounds::boundary_bytes() const {
  const Plan& plan = case_.plan;
  return static_cast<double>(plan.micro_batch * case_.train.seq_len / plan.cp * case_.model.hidden) *
         element_bytes(case_.train.precision);
}

// A boundary tensor that comes in pieces is put together first.
Time PlanBounds::gather_time(const StageKind& kind) const {
  const Plan& plan = case_.plan;
  if (plan.tp == 1 || plan.pp == 1 || plan.sequence_parallel || !case_.software.pipeline_scatter_gather) return {};
  return collective_time({Purpose::tensor, Collective::all_gather, {boundary_bytes()}, 1.0, {0}}, kind);
}

Time PlanBounds::send_time(int from, int to) {
  const bool in_pieces = case_.plan.sequence_parallel || case_.software.pipeline_scatter_gather;
  const Bytes bytes{boundary_bytes() / (in_pieces ? case_.plan.tp : 1)};
  return duration(collective_cost(Collective::send, bytes, send_shape(from, to), cluster_, constants_));
}

// What a stage's compute stream waits for its own sends over the step, and what it puts together of those it receives.
Time PlanBounds::sends_of(int stage) {
  const Plan& plan = case_.plan;
  if (plan.pp == 1) return {};
  Time sends, most;
  std::int64_t received = 0;
  for (int chunk = 0; chunk < plan.vpp; ++chunk) {
    for (const auto& other : {next_chunk(plan, {stage, chunk}), previous_chunk(plan, {stage, chunk})}) {
      if (!other || other->stage == stage) continue;
      ++received;
      if (plan.overlap.p2p || two_ways(plan)) continue;
      const Time one = send_time(stage, other->stage);
      sends += one;
      most = std::max(most, one);
    }
  }
  const std::int64_t m = passes_of_a_chunk();
  return scaled(sends, m) - most + scaled(gather_time(lane_->stage(stage)), received * m);
}

const LayerCosts& PlanBounds::costs(int gpu) {
  const auto kind = static_cast<std::size_t>(gpu);
  if (costs_of_kind_[kind] == nullptr) costs_of_kind_[kind] = &costs_.of(cases_[kind], gpu);
  return *costs_of_kind_[kind];
}

PlanBounds::Ends PlanBounds::ends_of_lane() {
  const Plan& plan = case_.plan;
  const Time overhead = to_time({case_.software.step_overhead_ms * 1e-3});
  const bool staggered = is_zero_bubble(plan.schedule) && case_.software.optimizer_post_validated && plan.zero == 0;
  const bool drains = !splits_backward(plan.schedule) && !staggered;
  const std::vector<StageKind>& kinds = lane_->kinds;
  std::vector<PassTimes> times;
  for (const StageKind& kind : kinds) times.push_back(pass_times(kind));

  Ends ends;
  Time fill, drain, first_optimizer;
  std::vector<int> first_of_kind(kinds.size(), -1), last_of_kind(kinds.size());
  for (int stage = 0; stage < plan.pp; ++stage) {
    const auto kind = lane_->kind_of_stage[static_cast<std::size_t>(stage)];
    if (first_of_kind[kind] < 0) first_of_kind[kind] = stage;
    last_of_kind[kind] = stage;
  }
  for (int stage = 0; stage < plan.pp; ++stage) {
    const auto kind = lane_->kind_of_stage[static_cast<std::size_t>(stage)];
    // Stages of a kind differ by what is in front of them.
    if (stage == first_of_kind[kind] || stage == last_of_kind[kind]) {
      const DataTimes data = data_times(stage);
      const Time busy = scaled(times[kind].all, passes_of_a_chunk()) + sends_of(stage) + data.on_compute_stream;
      const Composition update = optimizer_work(case_at(stage), layouts_[static_cast<std::size_t>(stage)]);
      const Time optimizer = at_speed(update, kinds[kind].speed).total();
      const HostTimes host = host_times(stage);
      const Time after = std::max(optimizer + data.after_optimizer, host.update) + overhead;
      if (stage == 0) first_optimizer = optimizer;
      const Time begin = staggered ? Time::zero() : fill;
      const Time last_pass = times[kind].last_backward + gather_time(kinds[kind]);
      Time end = begin + busy + std::max(data.after_last_pass, data.taken_from_kernels);
      end = std::max(end, begin + busy - last_pass + data.after_last_backward_began);
      if (!staggered) end = std::max(end, data.on_own_stream);
      ends.passes = std::max({ends.passes, end, begin + busy + (drains ? drain : Time::zero())});
      ends.closing = std::max(ends.closing, after);
      ends.stage = std::max({ends.stage, host.copies, (staggered ? begin + busy + optimizer + overhead : end + after)});
      if (drains) ends.stage = std::max(ends.stage, begin + busy + drain + first_optimizer + overhead);
    }
    if (stage + 1 == plan.pp || plan.schedule == PipelineSchedule::dualpipe) continue;
    const Time gather = gather_time(kinds[kind]);
    fill += times[kind].first_forward + send_time(stage, stage + 1) + (stage > 0 ? gather : Time::zero());
    drain += times[kind].first_backward + send_time(stage + 1, stage) + gather;
  }
  return ends;
}

Time PlanBounds::step_time(const Plan& plan) {
  enter(plan);
  if (plan.offload.any()) enter_host_work();
  Ends most;
  for (const Lane& lane : lanes_) {
    enter(lane);
    const Ends ends = ends_of_lane();
    most = {std::max(most.passes, ends.passes), std::max(most.stage, ends.stage), std::max(most.closing, ends.closing)};
  }
  const bool staggered = is_zero_bubble(plan.schedule) && case_.software.optimizer_post_validated && plan.zero == 0;
  const bool agrees = norm_ > Time::zero() && !staggered;
  const Time bound = agrees ? std::max(most.stage, most.passes + norm_ + most.closing) : most.stage;
  return Time{static_cast<std::int64_t>(static_cast<double>(bound.ps) * (1.0 - kRounding))};
}

}  // namespace foretrain
