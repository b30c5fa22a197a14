#pragma once

#include <cstdint>
#include <vector>

#include "sim/cost/kernel.h"
#include "sim/plan/plan.h"

namespace foretrain {

// One forward or backward pass of a micro-batch through one chunk of layers held by a pipeline stage.
struct PipelineOp {
  Pass pass = Pass::forward;
  std::int32_t micro_batch = 0;
  std::int32_t chunk = 0;  // 0 .. vpp-1; stage s holds chunks c * pp + s of the model

  bool operator==(const PipelineOp&) const = default;
};

// The order in which a stage issues its passes. One function a schedule; a new one is added here, in one file, and to
// pipeline_order(). When each pass really runs comes out of the simulation.
std::vector<PipelineOp> gpipe_order(std::int64_t micro_batches);
std::vector<PipelineOp> one_f_one_b_order(int stages, int stage, std::int64_t micro_batches);
std::vector<PipelineOp> interleaved_order(int stages, int chunks, int stage, std::int64_t micro_batches);

std::vector<PipelineOp> pipeline_order(const Plan& plan, int stage, std::int64_t micro_batches);

}  // namespace foretrain
