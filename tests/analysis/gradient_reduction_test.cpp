// What DeepSpeed's reductions of gradients move, over links and in device memory.

#include <doctest/doctest.h>

#include <string>

#include "sim/cost/kernel.h"
#include "tests/support/cases.h"

using namespace foretrain;
using namespace foretrain::testing;

namespace {

Case of_stage(int zero) {
  return case_of(
      "model: {arch: llama, layers: 8, hidden: 2048, heads: 16, kv_heads: 8, ffn: 5632, vocab: 32000}\n"
      "software: deepspeed\n"
      "cluster: {gpu: a100-sxm4-80gb, gpus: 8, gpus_per_node: 8, intra: nvswitch}\n"
      "train: {seq_len: 1024, global_batch: 24, precision: bf16}\n"
      "plan: {micro_batch: 1, recompute: none, zero: " +
      std::to_string(zero) + "}");
}

double bytes_reduced(const CaseReport& report) {
  double sum = 0;
  for (std::size_t t = 0; t < report.step.tasks.size(); ++t) {
    if (report.step.tasks[t].kind != TaskKind::gradient_reduce) continue;
    sum += report.step.graph.cost(report.step.graph.cost_of(engine::TaskId(t))).work;
  }
  return sum;
}

}  // namespace

TEST_CASE("ZeRO-2 sums whole gradients on every rank after every micro-batch, ZeRO-3 scatters them") {
  const CaseReport one = simulate_plainly(of_stage(1)), two = simulate_plainly(of_stage(2)),
                   three = simulate_plainly(of_stage(3));
  const double n = one.step.layouts[0].parameters();
  CHECK(bytes_reduced(one) == doctest::Approx(2 * (2 * n) * 7 / 8));
  CHECK(bytes_reduced(two) == doctest::Approx(3 * 2 * (2 * n) * 7 / 8));
  CHECK(bytes_reduced(three) == doctest::Approx(3 * (2 * n) * 7 / 8));
  // A framework that scatters moves half of it.
  Case scattering = of_stage(2);
  scattering.software.zero2_all_reduce = false;
  const CaseReport scattered = simulate_plainly(scattering);
  CHECK(bytes_reduced(scattered) == doctest::Approx(3 * (2 * n) * 7 / 8));
  CHECK(scattered.step_time < two.step_time);
  CHECK(scattered.memory[0].parts.gradients.value == two.memory[0].parts.gradients.value);
}

TEST_CASE("gradients are copied three times on their way, at the bandwidth of memory") {
  for (const int zero : {1, 2, 3}) {
    CAPTURE(zero);
    const Case copying = of_stage(zero);
    CHECK(copying.software.zero_bucket_copy_bytes == 12);
    Case direct = copying;
    direct.software.zero_bucket_copy_bytes = 0;
    const CaseReport with = simulate_plainly(copying), without = simulate_plainly(direct);
    const double reduced = with.step.layouts[0].parameters() * (zero == 1 ? 1 : 3);
    const double copies = streaming_time(copying.cluster.gpu, {12 * reduced}, 0).total().value;
    CHECK((with.step_time - without.step_time).seconds() == doctest::Approx(copies).epsilon(0.05));
  }
}
