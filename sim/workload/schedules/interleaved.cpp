#include <algorithm>

#include "sim/workload/schedules/pipeline_order.h"

namespace foretrain {
namespace {

// Micro-batches go through the chunks in groups of as many as there are stages; what does not divide makes some groups
// larger (as torch.distributed.pipelining does), and all one group if there are fewer.
class Groups {
 public:
  Groups(int stages, std::int64_t micro_batches)
      : count_(std::max<std::int64_t>(1, micro_batches / stages)),
        size_(micro_batches / count_),
        larger_(micro_batches % count_) {}

  std::int64_t largest() const { return size_ + (larger_ > 0 ? 1 : 0); }

  // The k-th pass a stage issues.
  PipelineOp nth(std::int64_t k, int chunks, Pass pass) const {
    const std::int64_t in_larger = larger_ * (size_ + 1) * chunks;
    const bool larger = k < in_larger;
    const std::int64_t size = larger ? size_ + 1 : size_, from = larger ? 0 : in_larger;
    const std::int64_t group = (k - from) / (size * chunks), within = (k - from) % (size * chunks);
    const auto chunk = static_cast<std::int32_t>(within / size);
    const std::int64_t first = from / chunks + group * size;
    return {pass, static_cast<std::int32_t>(first + within % size), pass == Pass::forward ? chunk : chunks - 1 - chunk};
  }

 private:
  std::int64_t count_, size_, larger_;
};

}  // namespace

// 1F1B over several chunks of layers a stage (Narayanan et al., arXiv 2104.04473, section 2.2): the bubble shrinks by
// the number of chunks, the warm-up grows.
// Megatron-LM made everything warm-up if there was one group of micro-batches, until Megatron-Core of 2024 (NVIDIA/
// Megatron-LM megatron/core/pipeline_parallel/schedules.py): later stages then begin to go backward at once.
std::vector<PipelineOp> interleaved_order(int stages, int chunks, int stage, std::int64_t micro_batches,
                                          bool all_forward_first) {
  const Groups groups(stages, micro_batches);
  const std::int64_t passes = micro_batches * chunks;
  const std::int64_t warm_up =
      all_forward_first && micro_batches <= stages
          ? passes
          : std::min<std::int64_t>(2 * (stages - stage - 1) + (chunks - 1) * groups.largest(), passes);
  std::vector<PipelineOp> order;
  std::int64_t forward = 0, backward = 0;
  while (forward < warm_up) order.push_back(groups.nth(forward++, chunks, Pass::forward));
  while (forward < passes) {
    order.push_back(groups.nth(forward++, chunks, Pass::forward));
    order.push_back(groups.nth(backward++, chunks, Pass::backward));
  }
  while (backward < passes) order.push_back(groups.nth(backward++, chunks, Pass::backward));
  return order;
}

}  // namespace foretrain
