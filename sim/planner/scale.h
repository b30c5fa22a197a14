#pragma once

#include <optional>
#include <vector>

#include "sim/planner/planner.h"

namespace foretrain {

// One point of a scaling curve.
struct ScalePoint {
  int gpus = 0;
  std::optional<CaseReport> report;  // absent where no plan is legal or none fits
  Message why_not;
  bool complete = true;  // false if the search for its plan was stopped, or before it began: a faster one may exist
  // Tokens per second and GPU, of those of the first point that was simulated.
  double efficiency = 0;
  // The part of the step on which a GPU spends most more for a token than at that point, and the share of what a token
  // costs here; none where nothing grew.
  std::optional<Cause> bent_by;
  double bent_share = 0;
};

struct ScaleOptions {
  std::vector<int> gpus;  // ascending
  bool weak = false;      // the batch grows with the GPUs from the case's own; else it stays
  PlannerOptions search;  // for plans that are looked for; once `stop` is set, sizes that follow are left out
  // Called now and then: the size in hand, and how much of all is done.
  std::function<void(int gpus, double share)> progress = {};
};

// The case on more and more of its GPUs. With `plan: auto` the best plan of each size, otherwise the case's plan with
// as much data parallelism as the GPUs leave. The case's plan must be open (Case::open_plan).
std::vector<ScalePoint> scale(const Case& subject, const Environment& environment, const ScaleOptions& options);

}  // namespace foretrain
