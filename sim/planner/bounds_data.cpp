// Data-parallel traffic on idle links.

#include <algorithm>

#include "sim/planner/bound_durations.h"
#include "sim/planner/bounds.h"
#include "sim/workload/step_builder.h"

namespace foretrain {
namespace {

// Calls visit(block, count) for the blocks of a chunk, those that are alike and follow each other at once.
template <class Visit>
void for_each_run(const Chunk& chunk, const Visit& visit) {
  for (auto run = chunk.blocks.begin(); run != chunk.blocks.end();) {
    const auto end = std::find_if(run, chunk.blocks.end(), [&run](const Block& b) { return b != *run; });
    visit(*run, end - run);
    run = end;
  }
}

}  // namespace

PlanBounds::Traffic PlanBounds::Traffic::operator*(std::int64_t times) const {
  return {scaled(time, times), scaled(taken, times)};
}

CollectiveCost PlanBounds::data_cost(Purpose purpose, int stage, Collective op, Bytes bytes) {
  const GroupShape& group = shape(purpose, stage);
  CollectiveCost cost = collective_cost(op, bytes, group, cluster_, constants_);
  if (case_.plan.zero == 3 && case_.software.zero3_single_network_flow && group.nodes > 1) {
    cost.cap = std::min(cost.cap, group.nic_rate);
  }
  return cost;
}

PlanBounds::Traffic PlanBounds::traffic(Purpose purpose, int stage, Collective op, Bytes bytes) {
  const CollectiveCost cost = data_cost(purpose, stage, op, bytes);
  Traffic traffic{duration(cost), {}};
  const double sm_share = case_at(stage).cluster.gpu.achieved.collective_sm_share;
  if (cost.wire_bytes.value > 0) traffic.taken = Time::from_seconds(sm_share * (cost.wire_bytes / cost.cap).value);
  return traffic;
}

PlanBounds::Traffic PlanBounds::reduction(int stage, double parameters) {
  const Plan& plan = case_.plan;
  const Bytes bytes{parameters * case_.software.gradient_bytes};
  if (case_.software.reduces_whole_gradients(plan.zero)) {
    return traffic(Purpose::data, stage, Collective::all_reduce, bytes);
  }
  Traffic sum = traffic(Purpose::shard, stage, Collective::reduce_scatter, bytes);
  if (plan.shard_ranks() < plan.data_ranks()) {
    sum += traffic(Purpose::replica, stage, Collective::all_reduce, bytes / plan.shard_ranks());
  }
  return sum;
}

// Of all gradients of a stage once, and of those that the first block of its first chunk makes.
PlanBounds::Reductions PlanBounds::reductions(int stage) {
  const StageLayout& layout = layouts_[static_cast<std::size_t>(stage)];
  Reductions sum;
  if (case_.plan.zero == 3) {
    for (const Chunk& chunk : layout.chunks) {
      for_each_run(chunk, [&](const Block& block, std::int64_t count) {
        if (block.rest.trained() <= 0) return;
        const Traffic one = reduction(stage, block.rest.trained());
        if (&block == &layout.chunks.front().blocks.front()) sum.last = one.time;
        sum.all += one * count;
      });
    }
    return sum;
  }
  const double size = case_.software.gradient_bucket_bytes(case_.plan.data_ranks(), case_.plan.overlap.grad_reduce);
  double known = -1;
  Traffic one;
  for (const GradientBucket& bucket : gradient_buckets(layout, case_.software.gradient_bytes, size)) {
    if (bucket.experts) continue;  // reduced by another group
    if (bucket.parameters != known) one = reduction(stage, known = bucket.parameters);
    sum.all += one;
    sum.last = bucket.chunk == 0 && bucket.block == 0 ? one.time : Time::zero();
  }
  return sum;
}

// Of a stage's weights under ZeRO-3, in a whole step.
PlanBounds::Traffic PlanBounds::shard_gathers(int stage) {
  const std::int64_t m = micro_batches(case_.plan, case_.train);
  Traffic sum;
  for (const Chunk& chunk : layouts_[static_cast<std::size_t>(stage)].chunks) {
    for_each_run(chunk, [&](const Block& block, std::int64_t count) {
      const double weights = block.rest.total() - block.rest.quantised;
      const Bytes bytes{gathered_weight_bytes(case_.train, weights, block.kind == Block::Kind::layer ? weights : 0)};
      const bool thrice = block.recomputed && case_.software.zero3_gathers_with_recompute == 3;
      sum += traffic(Purpose::shard, stage, Collective::all_gather, bytes) *
             ((gathers_once(case_) ? 1 : (thrice ? 3 : 2) * m) * count);
    });
  }
  return sum;
}

// Of a stage's weights after the optimizer's step under ZeRO-1 and 2.
Time PlanBounds::updated_gathers(int stage) {
  const double size = case_.software.gradient_bucket_bytes(case_.plan.data_ranks(), case_.plan.overlap.grad_reduce);
  Time sum, one;
  double known = -1;
  const StageLayout& layout = layouts_[static_cast<std::size_t>(stage)];
  for (const GradientBucket& bucket : gradient_buckets(layout, case_.software.gradient_bytes, size)) {
    if (bucket.experts) continue;  // reduced by another group
    const double bytes = gathered_weight_bytes(case_.train, bucket.parameters, bucket.of_layers);
    if (bytes != known) {
      known = bytes;
      one = duration(data_cost(Purpose::shard, stage, Collective::all_gather, {known}));
    }
    sum += one;
  }
  return sum;
}

PlanBounds::DataTimes PlanBounds::data_times(int stage) {
  DataTimes times;
  const Plan& plan = case_.plan;
  const Software& software = case_.software;
  // Where weights or gradients come and go, what is left to reduce and gather differs: it counts as nothing.
  if (plan.data_ranks() == 1 || plan.offload.any()) return times;
  const bool every = reduces_every_micro_batch(case_);
  const bool serial =
      (plan.zero == 3 && !software.zero3_overlap) || (plan.zero == 2 && !plan.overlap.grad_reduce && every);
  // Kernels give way to transfers beside them; where a pass is cut at collectives, these may fall together instead.
  const bool kernels_only = plan.pp == 1 && plan.tp * plan.cp == 1 && case_.model.experts == 0 &&
                            case_at(stage).cluster.gpu.achieved.collective_sm_share > 0;

  const Reductions reduced = reductions(stage);
  const std::int64_t rounds = every ? micro_batches(plan, case_.train) : 1;
  if (serial) {
    times.on_compute_stream += scaled(reduced.all.time, rounds);
  } else {
    times.on_own_stream += scaled(reduced.all.time, rounds);
    const bool after_all = plan.zero < 3 && !plan.overlap.grad_reduce && !every;
    const bool one_chunk = plan.vpp == 1 && !splits_backward(plan.schedule);
    if (after_all) {
      times.after_last_pass = reduced.all.time;
    } else if (one_chunk) {
      times.after_last_backward_began = reduced.all.time;
      times.after_last_pass = reduced.last;
    }
    if (kernels_only && !after_all) times.taken_from_kernels += scaled(reduced.all.taken, rounds);
  }
  if (plan.shard_ranks() == 1) return times;
  if (plan.zero == 3) {
    const Traffic gathers = shard_gathers(stage);
    (software.zero3_overlap ? times.on_own_stream : times.on_compute_stream) += gathers.time;
    if (kernels_only && software.zero3_overlap) times.taken_from_kernels += gathers.taken;
  }
  if ((plan.zero == 1 || plan.zero == 2) && !software.zero1_return_by_broadcast) {
    (plan.overlap.param_gather ? times.on_own_stream : times.after_optimizer) += updated_gathers(stage);
  }
  return times;
}

}  // namespace foretrain
