#include <algorithm>

#include "sim/workload/schedules/pipeline_order.h"

namespace foretrain {

// A warm-up of as many forward passes as there are stages behind this one, then one forward and one backward in turn,
// then the remaining backward passes (PipeDream-Flush; Narayanan et al., arXiv 2104.04473, figure 4).
std::vector<PipelineOp> one_f_one_b_order(int stages, int stage, std::int64_t micro_batches) {
  const auto m = static_cast<std::int32_t>(micro_batches);
  const std::int32_t warm_up = std::min(stages - stage - 1, m);
  std::vector<PipelineOp> order;
  std::int32_t forward = 0, backward = 0;
  while (forward < warm_up) order.push_back({Pass::forward, forward++, 0});
  while (forward < m) {
    order.push_back({Pass::forward, forward++, 0});
    order.push_back({Pass::backward, backward++, 0});
  }
  while (backward < m) order.push_back({Pass::backward, backward++, 0});
  return order;
}

}  // namespace foretrain
