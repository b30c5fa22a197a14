#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "sim/engine/simulation.h"
#include "sim/workload/step.h"

namespace foretrain {

// What every picosecond of a GPU's step was spent on.
enum class Cause : std::uint8_t {
  compute,  // kernels run
  launch,   // the GPU waits for the host to issue kernels
  tp_comm,
  cp_comm,
  ep_comm,    // exposed tensor / context / expert-parallel communication
  dp_comm,    // exposed gradient reduction and parameter gathering, and kernels slowed by it
  zero_comm,  // exposed gathering and scattering of ZeRO-3 shards, and kernels slowed by it
  pp_comm,    // exposed pipeline transfers
  bubble,     // waiting for other pipeline stages
  offload,
  optimizer,
  other,  // waiting for the slowest of many ranks, fixed cost of a step
};
inline constexpr std::size_t kCauses = 12;
std::string_view to_string(Cause cause);

// What a GPU waited for when it waited for offloaded state.
enum class OffloadWait : std::uint8_t { copy_in, copy_out, host_optimizer, nvme };
inline constexpr std::size_t kOffloadWaits = 4;
std::string_view to_string(OffloadWait wait);

struct Breakdown {
  std::array<Time, kCauses> parts{};
  Time& operator[](Cause cause) { return parts[static_cast<std::size_t>(cause)]; }
  Time operator[](Cause cause) const { return parts[static_cast<std::size_t>(cause)]; }
  std::array<Time, kOffloadWaits> offload{};  // adds up to the part `offload`
  Time operator[](OffloadWait wait) const { return offload[static_cast<std::size_t>(wait)]; }
  Time total() const;  // equals the step time, exactly
};

// When each rank class begins its step, and how long a step is. Ranks that wait for each other at the end of a step
// begin together, and the step is the schedule's makespan. Otherwise (Step::staggered) a rank begins with its first
// pass and goes over to the next step as soon as it is through; shifted by the longest of these stretches the schedule
// repeats.
struct StepWindows {
  std::vector<Time> begin;
  Time length;
  std::size_t longest = 0;  // the rank class that decides the length
};
StepWindows step_windows(const Step& step, const engine::Schedule& schedule);

// One breakdown per rank class, each adding up to step_windows().length.
std::vector<Breakdown> breakdowns(const Step& step, const engine::Schedule& schedule, int zero);

// A stretch of a GPU's step and what it was spent on.
struct CauseSlice {
  Cause cause = Cause::other;
  OffloadWait wait = OffloadWait::copy_in;  // if the cause is offload
  Time begin, end;
};
// A rank class's step in order of time, without gaps: the slices of a cause add up to its part of the breakdown. Within
// a pass only the parts are known and not when each was, so that they come one after the other.
std::vector<CauseSlice> cause_slices(const Step& step, const engine::Schedule& schedule, int zero,
                                     std::size_t rank_class);

// The mean over all GPUs; picoseconds that do not divide go to the largest parts, so that it adds up as well.
Breakdown mean(const std::vector<Breakdown>& per_class, const std::vector<int>& multiplicity);

}  // namespace foretrain
