#pragma once

#include "sim/plan/stage_layout.h"
#include "sim/scenario/scenario.h"
#include "sim/workload/step.h"

namespace foretrain {

// What the optimizer does on one rank of a stage at the end of a step; or with `share` of the state that is updated and
// `gradients` of the gradients that are normed, clipped, unscaled and zeroed.
Composition optimizer_work(const Case& subject, const StageLayout& layout);
Composition optimizer_work(const Case& subject, const StageLayout& layout, double share, double gradients);

// The same work on a GPU whose kernels run at `speed`.
Composition at_speed(Composition work, double speed);

}  // namespace foretrain
