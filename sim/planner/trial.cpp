#include "sim/planner/trial.h"

#include <algorithm>
#include <stdexcept>

namespace foretrain {
namespace {

// Whether everything that leaves the GPUs finds room in a host.
bool fits_on_host(const Case& c, const Step& step) {
  if (!c.plan.offload.any() || !c.cluster.host.dram) return true;
  const HostMemory host = host_memory(c, step.layouts, host_activation_peaks(c, step));
  return host.parts.total() <= *c.cluster.host.dram;
}

}  // namespace

Trial Trials::simulate(const Plan& plan, bool even_if_it_does_not_fit, Time until) {
  if (too_long(plan)) return {};
  Case chosen = case_;
  chosen.open_plan.reset();
  chosen.plan = plan;
  Trial trial;
  try {
    const Step step =
        build_step(chosen, cluster_, environment_.collectives, {.communicators = communicators_.of(chosen)});
    for (const StagePeak& peak : memory_peaks(chosen, step)) {
      trial.missing = std::max(trial.missing, peak.needed - peak.capacity);
    }
    trial.host_is_full = !fits_on_host(chosen, step);
    if (trial.host_is_full) return trial;
    if (trial.missing.value > 0 && !even_if_it_does_not_fit) {
      trial.step_time = Time::zero();
      return trial;
    }
    // The steps of ranks that do not wait for each other are shorter than the schedule.
    const auto outcome = engine::simulate(step.graph, {.until = step.staggered ? Time::max() : until});
    if (std::holds_alternative<engine::Late>(outcome)) {
      trial.too_slow = true;
      return trial;
    }
    const auto* schedule = std::get_if<engine::Schedule>(&outcome);
    if (schedule == nullptr) throw std::logic_error("the schedule of a plan deadlocks");
    trial.step_time = step_windows(step, *schedule).length;
  } catch (const std::overflow_error&) {  // a step of months is as good as none
  } catch (const std::domain_error&) {
  }
  return trial;
}

}  // namespace foretrain
