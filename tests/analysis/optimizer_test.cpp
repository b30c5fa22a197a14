#include <doctest/doctest.h>

#include <string>

#include "tests/support/cases.h"

using namespace foretrain;
using namespace foretrain::testing;

namespace {

Case case_trained(const std::string& train, const std::string& plan = "", int gpus = 1) {
  const std::string n = std::to_string(gpus);
  return case_of(
      "model: {arch: llama, layers: 8, hidden: 2048, heads: 16, kv_heads: 8, ffn: 5632, vocab: 32000}\n"
      "software: hf-trainer\ncluster: {gpu: a100-sxm4-80gb, gpus: " +
      n + ", gpus_per_node: " + n + ", intra: nvswitch}\ntrain: {seq_len: 1024, global_batch: " + n + ", " + train +
      "}\nplan: {micro_batch: 1" + (plan.empty() ? "" : ", " + plan) + "}");
}

double seconds(const Case& c) { return simulate_plainly(c).step_time.seconds(); }

}  // namespace

TEST_CASE("updates in the backward pass keep one block's gradient") {
  const std::string rest = "precision: bf16, clip_gradients: false";
  const Case at_end = case_trained(rest), in_backward = case_trained(rest + ", optimizer_in_backward: true");
  const CaseReport r = simulate_plainly(in_backward);
  CHECK(r.memory[0].parts.gradients.value == 0);
  const auto gradients = [](const Case& c) {
    return stage_memories(c, simulate_plainly(c).step.layouts)[0].passing_gradients();
  };
  CHECK(gradients(at_end).value == doctest::Approx(2 * r.step.layouts[0].trained()));
  CHECK(gradients(in_backward).value == 0);
  CHECK(r.memory[0].needed < simulate_plainly(at_end).memory[0].needed);
  CHECK(seconds(in_backward) == doctest::Approx(seconds(at_end)));
}

TEST_CASE("Muon keeps one moment of matrices, and its products are shared among the ranks") {
  const auto states = [](const Case& c) {
    return stage_memories(c, simulate_plainly(c).step.layouts)[0].always.optimizer.value;
  };
  const Case adamw = case_trained("precision: bf16, optimizer: adamw"),
             muon = case_trained("precision: bf16, optimizer: muon");
  const CaseReport r = simulate_plainly(muon);
  double in_layers = 0;
  for (const Block& block : r.step.layouts[0].chunks[0].blocks) {
    if (block.kind == Block::Kind::layer) in_layers += block.trained();
  }
  // hf-trainer on one GPU keeps two moments of two bytes.
  CHECK(states(adamw) - states(muon) == doctest::Approx(2 * in_layers));

  // 2 (2 n^2 k + n^3) FLOPs a round, five rounds, for Q, K, V, output, gate, up and down; n the shorter side.
  const auto flops = [](double n, double k) { return 5 * 2 * (2 * n * n * k + n * n * n); };
  const double layer = 2 * flops(2048, 2048) + 2 * flops(1024, 2048) + 3 * flops(2048, 5632);
  const double at_peak = 8 * layer / 312e12, more = seconds(muon) - seconds(adamw);
  CHECK(more > at_peak);
  CHECK(more < 3 * at_peak);
  const double shared = seconds(case_trained("precision: bf16, optimizer: muon", "zero: 1", 8)) -
                        seconds(case_trained("precision: bf16, optimizer: adamw", "zero: 1", 8));
  CHECK(shared == doctest::Approx(more / 8).epsilon(0.02));
}

TEST_CASE("a paged optimizer costs nothing until memory is short, and then its way over PCIe") {
  const std::string rest = "precision: bf16, optimizer: ";
  Case paged = case_trained(rest + "paged-adamw8bit");
  const CaseReport plenty = simulate_plainly(paged);
  CHECK(plenty.step_time == simulate_plainly(case_trained(rest + "adamw8bit")).step_time);
  CHECK_FALSE(plenty.host);

  const Bytes out{2e8};
  paged.cluster.gpu.memory = plenty.memory[0].needed - out;
  const CaseReport tight = simulate_plainly(paged);
  CHECK(tight.fits);
  CHECK(tight.subject.plan.offload.paged.value == doctest::Approx(out.value).epsilon(1e-6));
  REQUIRE(tight.host);
  CHECK(tight.host->parts.optimizer.value == doctest::Approx(out.value).epsilon(1e-6));
  const double way = 2 * out.value / environment().hosts.pinned_copy.at(4);
  CHECK((tight.step_time - plenty.step_time).seconds() == doctest::Approx(way).epsilon(0.02));
  CHECK(tight.breakdown.total() == tight.step_time);

  // More than all of the state cannot leave.
  paged.cluster.gpu.memory = plenty.memory[0].needed - Bytes{1e10};
  CHECK_FALSE(simulate_plainly(paged).fits);
  CHECK_FALSE(simulate_plainly(paged).host);
}

TEST_CASE("fp16 divides gradients by the scale of the loss") {
  Case c = case_trained("precision: fp16");
  c.software = without_overheads(c.software);
  const double fp16 = seconds(c);
  c.train.precision = Precision::bf16;
  const CaseReport r = simulate_plainly(c);
  const double bytes = 2 * 4 * r.step.layouts[0].trained();  // autocast keeps gradients in fp32
  CHECK(fp16 - r.step_time.seconds() ==
        doctest::Approx(streaming_time(c.cluster.gpu, {bytes}, 0).total().value).epsilon(0.05));
}
