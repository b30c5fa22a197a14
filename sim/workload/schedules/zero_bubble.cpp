#include <algorithm>
#include <cmath>

#include "sim/workload/schedules/pipeline_order.h"

namespace foretrain {
namespace {

// A warm-up of so many forward passes, then input gradient, weight gradient and forward in turn, with the weight
// gradients so many micro-batches late. What is late at the end fills the time in which 1F1B waits.
std::vector<PipelineOp> paced(std::int64_t micro_batches, std::int64_t warm_up, std::int64_t late) {
  OrderWriter order({0});
  while (order.forwards(0) < std::min(warm_up, micro_batches)) order.forward(0);
  while (order.backwards(0) < micro_batches) {
    order.input_gradient(0);
    if (order.owed() > late) order.weight_gradient();
    if (order.forwards(0) < micro_batches) order.forward(0);
  }
  order.pay_all();
  return order.finish();
}

}  // namespace

// ZB-H1 (Qi et al., arXiv 2401.10241, section 2.1): the warm-up of 1F1B; a stage that warms up with one pass less may
// be late by one micro-batch more, so that all stages hold what the first one holds under 1F1B.
std::vector<PipelineOp> zero_bubble_order(int stages, int stage, std::int64_t micro_batches) {
  return paced(micro_batches, stages - stage, stage);
}

// ZB-H2 (section 2.2), to the measure of its passes, as the paper's own solver does (section 3): a stage warms up with
// forward passes until its first gradient arrives, and is late by the weight gradients that fit after its last one.
// Both within twice the activations of 1F1B. With equal times these are 2 (p - s) - 1 and 2 s.
std::vector<PipelineOp> zero_bubble_2p_order(int stages, int stage, std::int64_t micro_batches, const PassTimes& t) {
  constexpr double kRounding = 1e-9;
  const double limit = 2.0 * stages, stages_behind = stages - 1 - stage;
  const double more_each_stage =
      t.forward.value > 0 ? 1 + (t.input_gradient.value + 2 * t.transfer.value) / t.forward.value : 2;
  const double steepest = stages > 1 ? (limit - 1) / (stages - 1) : 1;
  const double warm_up = 1 + std::ceil(stages_behind * std::min(more_each_stage, steepest) - kRounding);
  const double later_each_stage =
      t.weight_gradient.value > 0
          ? (t.forward.value + t.input_gradient.value + 2 * t.transfer.value) / t.weight_gradient.value
          : 2;
  const double room = std::floor((limit - warm_up) / std::max(t.deferred_share, kRounding) + kRounding);
  const double late = std::clamp(std::ceil(stage * later_each_stage - kRounding), 0.0, std::max(0.0, room));
  const auto most = static_cast<double>(micro_batches);
  return paced(micro_batches, static_cast<std::int64_t>(std::min(warm_up, most)),
               static_cast<std::int64_t>(std::min(late, most)));
}

// ZB-V (section 6; arXiv 2405.15362, figure 3): two chunks a stage that go there and back, so that every stage begins
// and ends early, and activations of 1F1B. Written for equal times.
std::vector<PipelineOp> zero_bubble_v_order(int stages, int stage, std::int64_t micro_batches) {
  OrderWriter order({0, 0});
  const auto forward = [&](int chunk) {
    if (order.forwards(chunk) < micro_batches) order.forward(chunk);
  };
  const auto backward = [&](int chunk, bool weights_too) {
    if (order.backwards(chunk) >= micro_batches) return;
    order.input_gradient(chunk);
    if (weights_too) order.weight_gradient();
  };
  const int behind = stages - stage;
  for (int i = 0; i < 2 * behind - 1; ++i) forward(0);
  for (int i = 0; i < stage; ++i) forward(1), forward(0);
  for (int i = 0; i < behind; ++i) forward(1), backward(1, true);
  while (order.forwards(1) < micro_batches) {
    forward(0), backward(0, true);
    forward(1), backward(1, true);
  }
  for (int i = 0; i < stage; ++i) backward(0, false), backward(1, false);
  for (int i = 0; i < behind; ++i) backward(0, true);
  while (order.backwards(1) < micro_batches) backward(1, false);
  while (order.backwards(0) < micro_batches) backward(0, false);
  order.pay_all();
  return order.finish();
}

}  // namespace foretrain
