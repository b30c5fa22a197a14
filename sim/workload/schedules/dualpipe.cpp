#include "sim/workload/schedules/pipeline_order.h"

namespace foretrain {
namespace {

// Micro-batches enter from both ends of a line of ranks at once: `near` is the chunk whose way starts closer to this
// rank, `from_end` its distance to that end, `half` the ranks up to where the ways meet. A forward pass of one way and
// a backward pass of the other run as one; the first and last backward passes leave their weight gradients for the
// gaps. Phases as in DeepSeek's code (github.com/deepseek-ai/DualPipe; DeepSeek-V3, arXiv 2412.19437, section 3.2.1).
std::vector<PipelineOp> both_ways(int half, int from_end, int near, std::int64_t each_way, OrderWriter order) {
  const int far = 1 - near, to_middle = half - from_end - 1;
  const auto together = [&order](int forward, int backward) {
    order.forward(forward);
    order.with_next();
    order.backward(backward);
  };
  for (int i = 0; i < 2 * to_middle; ++i) order.forward(near);
  for (int i = 0; i <= from_end; ++i) order.forward(near), order.forward(far);
  for (int i = 0; i < to_middle; ++i) order.input_gradient(far), order.weight_gradient(), order.forward(far);
  for (std::int64_t i = 0; i < each_way - 2 * half + from_end + 1; ++i) {
    // Where the ways meet, the first gradient only comes to be with the forward pass before it.
    if (i == 0 && to_middle == 0) {
      order.forward(near), order.backward(far);
    } else {
      together(near, far);
    }
    together(far, near);
  }
  for (int i = 0; i < to_middle; ++i) order.backward(far), together(far, near);
  // The second half of what is left is cut in two.
  const int left = from_end + 1;
  for (int i = 0; i < 2 * left; ++i) {
    const int chunk = i % 2 == 0 ? far : near;
    i >= left ? order.input_gradient(chunk) : order.backward(chunk);
  }
  for (int i = 0; i < to_middle; ++i) order.weight_gradient(), order.input_gradient(near);
  order.pay_all();
  return order.finish();
}

}  // namespace

// Two copies of the model on one line of ranks: half of the micro-batches each way.
std::vector<PipelineOp> dualpipe_order(int stages, int stage, std::int64_t micro_batches) {
  const int half = stages / 2;
  const auto each_way = micro_batches / 2;
  OrderWriter order({0, static_cast<std::int32_t>(each_way)});
  const bool second_half = stage >= half;
  return both_ways(half, second_half ? stages - 1 - stage : stage, second_half ? 1 : 0, each_way, std::move(order));
}

// One copy, folded in the middle: the way back is the second half of the layers.
std::vector<PipelineOp> dualpipe_v_order(int stages, int stage, std::int64_t micro_batches) {
  return both_ways(stages, stage, 0, micro_batches, OrderWriter({0, 0}));
}

}  // namespace foretrain
