// The memory that a plan takes at least.

#include <algorithm>
#include <array>
#include <limits>

#include "sim/memory/ledger.h"
#include "sim/plan/optimizer.h"
#include "sim/planner/bounds.h"
#include "sim/workload/step_builder.h"

namespace foretrain {
namespace {

// Micro-batches after which a stage holds no more than before: a pipeline is full by then, and repeats itself. With
// GPipe all are open at once.
std::int64_t until_full(const Plan& plan, std::int64_t micro_batches) {
  if (plan.schedule == PipelineSchedule::gpipe) return micro_batches;
  return std::min(micro_batches, 4 * plan.pp + micro_batches % plan.pp);
}

}  // namespace

// Moments of a stage at which much is held: most forward passes open, and most of these and of the weight gradients
// that are owed together. The true peak is at one of them, or higher.
std::vector<PlanBounds::Moment> PlanBounds::full_moments(int stage, std::int64_t micro_batches) const {
  const Plan& plan = case_.plan;
  Moment now;
  now.open.resize(static_cast<std::size_t>(plan.vpp));
  now.owed = now.open;
  // A stage warms up at least as long as under 1F1B; what it is late by depends on its passes.
  if (made_to_measure(plan.schedule)) {
    now.open[0] = static_cast<double>(std::min<std::int64_t>(plan.pp - stage, micro_batches));
    return {now};
  }
  std::vector<Moment> moments(2, now);
  std::array<double, 2> most = {0, 0};
  double open = 0, owed = 0;
  std::array<bool, 2> just_forward = {false, false};  // nothing has come after the moment
  for (const PipelineOp& op : pipeline_order(plan, stage, micro_batches, {})) {
    const auto chunk = static_cast<std::size_t>(op.chunk);
    if (op.pass == Pass::forward) {
      ++now.open[chunk];
      ++open;
      now.forward = op.chunk;
      for (std::size_t i = 0; i < 2; ++i) {
        const double held = i == 0 ? open : open + owed;
        just_forward[i] = held > most[i];
        if (!just_forward[i]) continue;
        most[i] = held;
        moments[i] = now;
      }
      continue;
    }
    if (op.pass != Pass::weight_gradient) {
      for (std::size_t i = 0; i < 2; ++i) {
        if (just_forward[i]) moments[i].backward = op.chunk;
      }
      --now.open[chunk];
      --open;
    }
    const double more_owed = op.pass == Pass::input_gradient ? 1 : op.pass == Pass::weight_gradient ? -1 : 0;
    now.owed[chunk] += more_owed;
    owed += more_owed;
    just_forward = {false, false};
  }
  return moments;
}

Bytes PlanBounds::missing_memory(const Plan& plan) {
  enter(plan);
  Bytes most{-std::numeric_limits<double>::infinity()};
  for (const Lane& lane : lanes_) {
    enter(lane);
    most = std::max(most, missing_of_lane());
  }
  return most;
}

Bytes PlanBounds::missing_of_lane() {
  const Plan& plan = case_.plan;
  const std::int64_t m = until_full(plan, micro_batches(plan, case_.train));
  const auto [known, inserted] = moments_.try_emplace(m);
  if (inserted) {
    known->second.push_back(full_moments(0, m));
    if (plan.pp > 1) known->second.push_back(full_moments(plan.pp - 1, m));
  }
  const std::vector<StageMemory> memories = stage_memories(case_, {layouts_.front(), layouts_.back()});
  Bytes missing{-std::numeric_limits<double>::infinity()};
  for (std::size_t end = 0; end < known->second.size(); ++end) {
    const StageMemory& memory = memories[end];
    Bytes most;
    const auto note = [&](const MemoryParts& parts) {
      most = std::max(most, with_fragments(parts, case_.software.activation_fragmentation));
    };
    MemoryParts always = memory.always;
    if (is_paged(case_.train.optimizer)) always.optimizer = {};  // gives way where it must
    MemoryParts stepping = always;
    stepping.optimizer_extra = memory.optimizer_extra;
    note(stepping);
    for (const Moment& moment : known->second[end]) {
      MemoryParts now = always;
      now.gathered_parameters = memory.gathered;
      for (std::size_t c = 0; c < moment.open.size(); ++c) {
        now.activations += memory.chunks[c].kept * moment.open[c] + memory.chunks[c].deferred * moment.owed[c];
      }
      now.logits = memory.chunks[static_cast<std::size_t>(moment.forward)].logits;
      note(now);
      if (!moment.backward) continue;
      now.logits = {};
      now.working_set = memory.chunks[static_cast<std::size_t>(*moment.backward)].backward_working;
      note(now);
    }
    const Case& here = case_at(end == 0 ? 0 : plan.pp - 1);
    missing = std::max(missing, most + outside_the_allocator(here) - here.cluster.gpu.memory);
  }
  return missing;
}

}  // namespace foretrain
