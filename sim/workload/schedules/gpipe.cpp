#include "sim/workload/schedules/pipeline_order.h"

namespace foretrain {

// All forward passes, then all backward passes (Huang et al., arXiv 1811.06965). Every micro-batch is in flight at
// the turn, so activations grow with their number.
std::vector<PipelineOp> gpipe_order(std::int64_t micro_batches) {
  std::vector<PipelineOp> order;
  for (Pass pass : {Pass::forward, Pass::backward}) {
    for (std::int64_t m = 0; m < micro_batches; ++m) order.push_back({pass, static_cast<std::int32_t>(m), 0});
  }
  return order;
}

}  // namespace foretrain
