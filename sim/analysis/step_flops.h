#pragma once

#include <vector>

#include "sim/plan/stage_layout.h"
#include "sim/scenario/scenario.h"

namespace foretrain {

// FLOPs of one step over all GPUs: forward once, backward twice (once for frozen weights); and what recomputation adds.
struct StepFlops {
  double model = 0, recomputed = 0;
};
StepFlops step_flops(const Case& subject, const std::vector<StageLayout>& layouts);

// What the model FLOPs utilisation is a share of: the dense peak of the run's precision, or of fp32 where the GPU has
// no such rate; 0 if it has neither. The mean over the job where GPUs differ.
FlopsPerSecond peak_rate(const Case& subject);

}  // namespace foretrain
