#include "sim/page/roofline.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "sim/model/operators.h"
#include "tests/support/cases.h"

using namespace foretrain;
using namespace foretrain::page;
using foretrain::testing::case_of;

namespace {

Case with(const std::string& model, const std::string& gpu, const std::string& more) {
  return case_of(
      "model: " + model + "\ntrain: {seq_len: 2048, global_batch: 64, optimizer: adamw, " + more +
      "}\nsoftware: megatron-core\ncluster: {gpu: " + gpu +
      ", gpus: 8, gpus_per_node: 8, intra: nvswitch}\nplan: {tp: 2, sequence_parallel: true, micro_batch: 2}\n");
}

}  // namespace

TEST_CASE("no operator is faster than the GPU") {
  for (const char* model : {"llama-2-7b", "gpt-3-1.3b", "deepseek-v2-lite", "mixtral-8x7b"}) {
    for (const auto& [gpu, precision] : {std::pair("a100-sxm4-80gb", "bf16"), std::pair("h100-sxm5-80gb", "fp8"),
                                         std::pair("b200-sxm-180gb", "nvfp4")}) {
      CAPTURE(model);
      CAPTURE(gpu);
      const Case c = with(model, gpu, std::string("attention: flash2, precision: ") + precision);
      const MatrixRate rate = matrix_rate(c.cluster.gpu, c.train.precision);
      const std::vector<OperatorPoint> points = operator_points(c);
      CHECK(points.size() >= 14);
      for (const OperatorPoint& point : points) {
        CAPTURE(point.name);
        CHECK(point.flops > 0);
        CHECK(point.bytes > 0);
        CHECK(point.flops / point.time.value <= rate.datasheet.value * 1.0001);
        CHECK(point.bytes / point.time.value <= c.cluster.gpu.memory_bandwidth.value * 1.0001);
      }
    }
  }
}

TEST_CASE("the forward operators of all layers and the head do the FLOPs of a forward pass") {
  const Case c = with("gpt-3-1.3b", "a100-sxm4-80gb", "attention: standard, precision: bf16");
  double layer = 0, head = 0;
  for (const OperatorPoint& point : operator_points(c)) {
    if (point.pass == Pass::forward) (point.name == "head" ? head : layer) += point.flops;
  }
  const ForwardFlops whole = forward_flops(c.model, 2.0 * 2048, 2048);
  CHECK(layer * static_cast<double>(c.model.layers) * 2 ==
        doctest::Approx((whole.layers + whole.attention_core).value).epsilon(0.001));
  CHECK(head * 2 == doctest::Approx(whole.head.value).epsilon(0.01));  // the stored vocabulary is padded
}

TEST_CASE("frozen weights have no weight gradients") {
  const Case c =
      with("llama-2-7b", "a100-sxm4-80gb", "attention: flash2, precision: bf16, peft: {kind: lora, rank: 8}");
  const std::vector<OperatorPoint> points = operator_points(c);
  CHECK(std::none_of(points.begin(), points.end(),
                     [](const auto& point) { return point.pass == Pass::weight_gradient; }));
}
