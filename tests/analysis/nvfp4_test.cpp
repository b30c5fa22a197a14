// Four-bit training: what runs in four bits, what quantising costs, what is kept.

#include <doctest/doctest.h>

#include "sim/cost/kernel.h"
#include "tests/support/cases.h"
#include "tests/support/refused.h"

using namespace foretrain;
using namespace foretrain::testing;

namespace {

std::string four_bit_job(const std::string& precision, const std::string& gpu = "gb300-288gb") {
  return "model: {arch: llama, layers: 8, hidden: 8192, heads: 64, kv_heads: 8, ffn: 28672, vocab: 128256}\n"
         "software: megatron-core\ncluster: {gpu: " +
         gpu +
         ", gpus: 1}\n"
         "train: {seq_len: 8192, global_batch: 4, attention: flash3, precision: " +
         precision +
         "}\n"
         "plan: {micro_batch: 1}";
}

double step_seconds(const std::string& yaml) { return simulate_plainly(case_of(yaml)).step_time.seconds(); }

}  // namespace

TEST_CASE("an operand of an nvfp4 product is half a byte and its share of a scale") {
  CHECK(operand_bytes(Precision::nvfp4) == 0.5625);
  CHECK(element_bytes(Precision::nvfp4) == 2);
  CHECK(unquantised(Precision::nvfp4) == Precision::bf16);
  CHECK(is_quantised(Precision::nvfp4));
  CHECK_FALSE(is_quantised(Precision::bf16));
}

TEST_CASE("a large product in nvfp4 takes less time than in fp8, never less than the datasheet allows") {
  const Gpu gpu = case_of(four_bit_job("nvfp4")).cluster.gpu;
  const Gemm gemm{.m = 8192, .n = 28672, .k = 8192};
  const double flops = 2.0 * 8192 * 28672 * 8192;
  const double four = gemm_time(gpu, Precision::nvfp4, gemm).total().value;
  const double eight = gemm_time(gpu, Precision::fp8, gemm).total().value;
  CHECK(four < eight);
  CHECK(four > flops / gpu.dense(Precision::nvfp4)->value);
  CHECK(eight / four < gpu.dense(Precision::nvfp4)->value / gpu.dense(Precision::fp8)->value);
}

TEST_CASE("narrower products make a step faster, by less than the datasheet says") {
  const double bf16 = step_seconds(four_bit_job("bf16")), fp8 = step_seconds(four_bit_job("fp8")),
               nvfp4 = step_seconds(four_bit_job("nvfp4"));
  CHECK(nvfp4 < fp8);
  CHECK(fp8 < bf16);
  CHECK(bf16 / nvfp4 < 6);  // 15000 / 2500 TFLOP/s
}

TEST_CASE("inputs of linear layers are kept as quantised") {
  const Case four = case_of(four_bit_job("nvfp4")), sixteen = case_of(four_bit_job("bf16"));
  const Model& m = four.model;
  const LayerKind kind = m.layer_kind(0);
  // Those of Q, K and V, of the MLP, and of its down projection.
  const double inputs = 8192.0 * (2 * static_cast<double>(m.hidden) + static_cast<double>(m.ffn));
  CHECK(kept_activations_of_layer(sixteen, false, kind).value - kept_activations_of_layer(four, false, kind).value ==
        doctest::Approx(inputs * (2 - 0.5625)));
}

TEST_CASE("nvfp4 runs where the card has it, and not over quantised weights") {
  CHECK(
      refused(four_bit_job("nvfp4", "h100-sxm5-80gb"), "precision nvfp4 does not run on h100-sxm5-80gb; legal: fp32"));
  CHECK(refused(four_bit_job("nvfp4, peft: qlora"), "kind: qlora stores them quantised; legal: bf16 or fp16"));
  CHECK(refused(four_bit_job("nvfp4, fp8: {recipe: blockwise}"), "precision is nvfp4"));
}
