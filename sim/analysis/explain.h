#pragma once

#include <vector>

#include "sim/analysis/case_change.h"
#include "sim/analysis/critical_path.h"

namespace foretrain {

// Where the step of a case goes, and what would help.
struct Explanation {
  CaseReport report;
  CriticalPath path;
  // A rate of the hardware, faster or slower, each by simulation.
  struct Faster {
    HardwareRate rate = HardwareRate::matmul;
    double elasticity = 0;
    double gain = 0, loss = 0;       // one-sided: of a rate one percent higher, and one percent lower
    Time twice;                      // step time with twice the rate
    double twice_by_elasticity = 1;  // step time with twice the rate over the present one, were the elasticity constant
    // A faster rate gains clearly less than a slower one loses, or the other way round.
    bool kink() const;
  };
  std::vector<Faster> hardware;  // rates that matter, in the order of HardwareRate
  std::vector<TriedChange> software;
};

// The breakdown of every pipeline stage, the mean over its GPUs.
std::vector<Breakdown> stage_breakdowns(const CaseReport& report);

// Precondition: the case's plan is known. Throws std::overflow_error for a step that is too large to simulate a hundred
// times.
Explanation explain(const Case& subject, const Environment& environment, int threads);

}  // namespace foretrain
