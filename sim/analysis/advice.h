#pragma once

#include <optional>
#include <vector>

#include "sim/analysis/case_report.h"

namespace foretrain {

// The same case with the largest micro-batch (a divisor of the batch of one data-parallel rank) that fits, or where the
// batch is dealt out by speed the fastest; 1 if none.
Case with_largest_micro_batch(const Case& subject, const Environment& environment);

// The smallest changes of the plan that make a case fit: a smaller micro-batch, more recompute, a higher ZeRO stage,
// each alone or two together, and more GPUs. Those that fit, fewest changes and fastest first, at most three.
std::vector<FittingChange> fitting_changes(const Case& subject, const Environment& environment);

// The fewest GPUs of the same kind on which the same model-parallel plan fits with the same work for each GPU.
struct ScalingBaseline {
  int gpus = 0;
  double tokens_per_second_per_gpu = 0;
};
std::optional<ScalingBaseline> scaling_baseline(const Case& subject, const Environment& environment);

}  // namespace foretrain
