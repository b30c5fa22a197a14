#pragma once

#include "sim/claims/check.h"
#include "sim/report/run_report.h"

namespace foretrain::report {

// Every number of a case's JSON under its keys joined by dots ("memory.parts.weights"); lists are left out. And four
// that it does not have: model states (weights, gradients and optimizer) as `memory.states_bytes`, everything of a
// micro-batch (activations, working set, logits) as `memory.batch_bytes`, `gpus`, and `data_parallel_bytes`: what one
// GPU sends in a step to reduce gradients and gather parameters, counted as for a ring whatever the algorithm, which is
// how NCCL counts its bus bandwidth (only where all GPUs do the same).
Figures case_figures(const CaseReport& report);

}  // namespace foretrain::report
