// Data-parallel traffic on idle links.

#include <algorithm>

#include "sim/planner/bound_durations.h"
#include "sim/planner/bounds.h"
#include "sim/workload/step_builder.h"

namespace foretrain {

CollectiveCost PlanBounds::data_cost(Purpose purpose, int stage, Collective op, Bytes bytes) {
  const GroupShape& group = shape(purpose, stage);
  CollectiveCost cost = collective_cost(op, bytes, group, cluster_, constants_);
  if (case_.plan.zero == 3 && case_.software.zero3_single_network_flow && group.nodes > 1) {
    cost.cap = std::min(cost.cap, group.nic_rate);
  }
  return cost;
}

PlanBounds::DataTimes PlanBounds::data_times(int stage) {
  DataTimes times;
  const Plan& plan = case_.plan;
  const Software& software = case_.software;
  // Where weights or gradients come and go, what is left to reduce and gather differs: it counts as nothing.
  if (plan.data_ranks() == 1 || plan.offload.any()) return times;
  const StageLayout& layout = layouts_[static_cast<std::size_t>(stage)];
  const std::int64_t m = micro_batches(plan, case_.train);
  const bool every = reduces_every_micro_batch(case_);
  const bool serial =
      (plan.zero == 3 && !software.zero3_overlap) || (plan.zero == 2 && !plan.overlap.grad_reduce && every);
  const double sm_share = case_.cluster.gpu.achieved.collective_sm_share;
  // Kernels give way to transfers beside them; where a pass is cut at collectives, these may fall together instead.
  const bool kernels_only = plan.pp == 1 && plan.tp * plan.cp == 1 && case_.model.experts == 0 && sm_share > 0;

  Time taken;
  const auto reduction = [&](double parameters) {
    const Bytes bytes{parameters * software.gradient_bytes};
    Time sum;
    const auto add = [&](Purpose purpose, Collective op, Bytes amount) {
      const CollectiveCost cost = data_cost(purpose, stage, op, amount);
      sum += duration(cost);
      if (cost.wire_bytes.value > 0) taken += Time::from_seconds(sm_share * (cost.wire_bytes / cost.cap).value);
    };
    if (plan.zero == 0 || (plan.zero == 1 && software.zero1_all_reduce)) {
      add(Purpose::data, Collective::all_reduce, bytes);
    } else {
      add(Purpose::shard, Collective::reduce_scatter, bytes);
      if (plan.shard_ranks() < plan.data_ranks()) {
        add(Purpose::replica, Collective::all_reduce, bytes / plan.shard_ranks());
      }
    }
    return sum;
  };
  Time reductions, last;
  if (plan.zero == 3) {
    for (const Chunk& chunk : layout.chunks) {
      for (auto run = chunk.blocks.begin(); run != chunk.blocks.end();) {
        const auto end = std::find_if(run, chunk.blocks.end(), [&run](const Block& b) { return b != *run; });
        if (run->rest.trained() > 0) {
          const Time before = taken;
          const Time one = reduction(run->rest.trained());
          if (&chunk == &layout.chunks.front() && run == chunk.blocks.begin()) last = one;
          reductions += one * (end - run);
          taken += (taken - before) * (end - run - 1);
        }
        run = end;
      }
    }
  } else {
    const double size = software.gradient_bucket_bytes(plan.data_ranks(), plan.overlap.grad_reduce);
    double known = -1;
    Time known_time, known_taken;
    for (const GradientBucket& bucket : gradient_buckets(layout, software.gradient_bytes, size)) {
      if (bucket.experts) continue;  // reduced by another group
      const Time before = taken;
      if (bucket.parameters != known) {
        known = bucket.parameters;
        known_time = reduction(bucket.parameters);
        known_taken = taken - before;
      } else {
        taken += known_taken;
      }
      reductions += known_time;
      last = bucket.chunk == 0 && bucket.block == 0 ? known_time : Time::zero();
    }
  }
  const std::int64_t rounds = every ? m : 1;
  const bool one_chunk = plan.vpp == 1 && !splits_backward(plan.schedule);
  if (serial) {
    times.on_compute_stream += scaled(reductions, rounds);
  } else {
    times.on_own_stream += scaled(reductions, rounds);
    const bool after_all = plan.zero < 3 && !plan.overlap.grad_reduce && !every;
    if (after_all) {
      times.after_last_pass = reductions;
    } else if (one_chunk) {
      times.after_last_backward_began = reductions;
      times.after_last_pass = last;
    }
    if (kernels_only && !after_all) times.taken_from_kernels += scaled(taken, rounds);
  }

  const auto gathered = [&](const Block& block) {
    const double weights = block.rest.total() - block.rest.quantised;
    return Bytes{gathered_weight_bytes(case_.train, weights, block.kind == Block::Kind::layer ? weights : 0)};
  };
  if (plan.zero == 3 && plan.shard_ranks() > 1) {
    Time gathers;
    taken = {};
    for (const Chunk& chunk : layout.chunks) {
      for (auto run = chunk.blocks.begin(); run != chunk.blocks.end();) {
        const auto end = std::find_if(run, chunk.blocks.end(), [&run](const Block& b) { return b != *run; });
        const CollectiveCost cost = data_cost(Purpose::shard, stage, Collective::all_gather, gathered(*run));
        const bool thrice = run->recomputed && software.zero3_gathers_with_recompute == 3;
        const std::int64_t times_a_step = (gathers_once(case_) ? 1 : (thrice ? 3 : 2) * m) * (end - run);
        gathers += scaled(duration(cost), times_a_step);
        if (cost.wire_bytes.value > 0) {
          taken += scaled(Time::from_seconds(sm_share * (cost.wire_bytes / cost.cap).value), times_a_step);
        }
        run = end;
      }
    }
    (software.zero3_overlap ? times.on_own_stream : times.on_compute_stream) += gathers;
    if (kernels_only && software.zero3_overlap) times.taken_from_kernels += taken;
  }
  if ((plan.zero == 1 || plan.zero == 2) && plan.shard_ranks() > 1 && !software.zero1_return_by_broadcast) {
    const double size = software.gradient_bucket_bytes(plan.data_ranks(), plan.overlap.grad_reduce);
    Time gathers, known_time;
    double known = -1;
    for (const GradientBucket& bucket : gradient_buckets(layout, software.gradient_bytes, size)) {
      if (bucket.experts) continue;  // reduced by another group
      const double bytes = gathered_weight_bytes(case_.train, bucket.parameters, bucket.of_layers);
      if (bytes != known) {
        known = bytes;
        known_time = duration(data_cost(Purpose::shard, stage, Collective::all_gather, {known}));
      }
      gathers += known_time;
    }
    (plan.overlap.param_gather ? times.on_own_stream : times.after_optimizer) += gathers;
  }
  return times;
}

}  // namespace foretrain
