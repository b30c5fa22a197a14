#include <algorithm>

#include "sim/workload/schedules/pipeline_order.h"

namespace foretrain {
namespace {

// The k-th pass a stage issues: micro-batches go through the chunks in groups of as many as there are stages.
PipelineOp nth(std::int64_t k, int stages, int chunks, Pass pass) {
  const std::int64_t round = k / (static_cast<std::int64_t>(stages) * chunks);
  const std::int64_t within = k % (static_cast<std::int64_t>(stages) * chunks);
  const auto chunk = static_cast<std::int32_t>(within / stages);
  return {pass, static_cast<std::int32_t>(round * stages + within % stages),
          pass == Pass::forward ? chunk : chunks - 1 - chunk};
}

}  // namespace

// 1F1B over several chunks of layers a stage (Narayanan et al., arXiv 2104.04473, section 2.2): the bubble shrinks by
// the number of chunks, the warm-up grows. micro_batches must be a multiple of the stages.
std::vector<PipelineOp> interleaved_order(int stages, int chunks, int stage, std::int64_t micro_batches) {
  const std::int64_t passes = micro_batches * chunks;
  // With one group of micro-batches everything is warm-up, as in Megatron-LM.
  const std::int64_t warm_up =
      micro_batches == stages
          ? passes
          : std::min<std::int64_t>(2 * (stages - stage - 1) + static_cast<std::int64_t>(chunks - 1) * stages, passes);
  std::vector<PipelineOp> order;
  std::int64_t forward = 0, backward = 0;
  while (forward < warm_up) order.push_back(nth(forward++, stages, chunks, Pass::forward));
  while (forward < passes) {
    order.push_back(nth(forward++, stages, chunks, Pass::forward));
    order.push_back(nth(backward++, stages, chunks, Pass::backward));
  }
  while (backward < passes) order.push_back(nth(backward++, stages, chunks, Pass::backward));
  return order;
}

}  // namespace foretrain
