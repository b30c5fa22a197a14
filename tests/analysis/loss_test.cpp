#include <doctest/doctest.h>

#include <string>

#include "tests/support/cases.h"

using namespace foretrain;
using namespace foretrain::testing;

namespace {

constexpr double kTokens = 4096, kHidden = 2048, kVocabulary = 128000;

// One layer, so that the head is most of the work, on one GPU.
Case case_with(const std::string& loss, const std::string& software = "torch-fsdp") {
  return case_of(
      "model: {arch: llama, layers: 1, hidden: 2048, heads: 16, ffn: 5632, vocab: 128000}\nsoftware: " + software +
      "\ncluster: {gpu: a100-sxm4-80gb, gpus: 1, gpus_per_node: 1, intra: nvswitch}\n"
      "train: {seq_len: 4096, global_batch: 1, precision: bf16" +
      (loss.empty() ? "" : ", loss: " + loss) + "}\nplan: {micro_batch: 1}");
}

Bytes logits(const std::string& loss) {
  return stage_memories(case_with(loss), simulate_plainly(case_with(loss)).step.layouts)[0].chunks[0].logits;
}

double seconds_without_overheads(const std::string& loss) {
  Case c = case_with(loss);
  c.software = without_overheads(c.software);
  return simulate_plainly(c).step_time.seconds();
}

}  // namespace

TEST_CASE("a loss in parts holds the logits of one part, and the gradient of the head") {
  const double gradient = kVocabulary * kHidden * 2, all = kTokens * kVocabulary * 2;
  CHECK(logits("{chunks: 1}").value == doctest::Approx(all + gradient));
  CHECK(logits("{chunks: 8}").value == doctest::Approx(all / 8 + gradient));
  CHECK(logits("fused").value == 0);
  CHECK(logits("").value == doctest::Approx(kTokens * kVocabulary * 15));  // as the profile says
}

TEST_CASE("the peak falls with the parts of the loss, and nothing is left over") {
  Bytes before = simulate_plainly(case_with("")).memory[0].needed;
  for (const char* loss : {"{chunks: 1}", "{chunks: 4}", "{chunks: 32}", "fused"}) {
    CAPTURE(std::string(loss));
    const Case c = case_with(loss);
    const CaseReport r = simulate_plainly(c);
    CHECK(r.memory[0].needed <= before);
    before = r.memory[0].needed;
    const StageMemory memory = stage_memories(c, r.step.layouts)[0];
    CHECK(bytes_left(memory, r.step, 0).total().value == memory.always.total().value);
  }
}

TEST_CASE("a loss without logits makes them twice") {
  const Case c = case_with("");
  const double product = gemm_time(c.cluster.gpu, Precision::bf16, {.m = 4096, .n = 128000, .k = 2048}).total().value;
  const double more = seconds_without_overheads("fused") - seconds_without_overheads("");
  CHECK(more == doctest::Approx(product).epsilon(0.02));
}

TEST_CASE("one part costs the products of all logits at once; small parts cost more") {
  // The gradients that the backward pass scales are read and written once.
  const Case c = case_with("");
  const double scaled =
      streaming_time(c.cluster.gpu, {4 * (kTokens * kHidden + kVocabulary * kHidden)}, 2).total().value;
  const double passes = streaming_time(c.cluster.gpu, {6 * kTokens * kVocabulary}, 2).total().value;
  const double whole = seconds_without_overheads(""), one = seconds_without_overheads("{chunks: 1}");
  CHECK(one - whole == doctest::Approx(scaled + passes).epsilon(0.02));
  CHECK(seconds_without_overheads("{chunks: 64}") > one);
}

TEST_CASE("sequences of a million tokens, in every kind of context parallelism") {
  for (const std::string kind : {"ring", "all-gather", "ulysses"}) {
    CAPTURE(kind);
    const CaseReport r = simulate_plainly(case_of(
        "model: llama-3-8b\nsoftware: megatron-core\n"
        "cluster: {gpu: h100, gpus: 64, gpus_per_node: 8, intra: nvswitch, nics: 8, nic_gbps: 400, net: infiniband}\n"
        "train: {seq_len: 1048576, global_batch: 1, precision: bf16, loss: {chunks: 64}}\n"
        "plan: {tp: 2, cp: 16, pp: 2, sequence_parallel: true, recompute: full, micro_batch: 1, cp_kind: " +
        kind + "}"));
    // Attention is most of the work: 4 s^2 h forward and its double backward, halved by the mask, over 64 GPUs at full
    // rate.
    const double attention = 32 * 2 * 1048576.0 * 1048576.0 * 4096 * 3 / 64 / 989e12;
    CHECK(r.step_time.seconds() > attention);
    CHECK(r.step_time.seconds() < 12 * attention);
    CHECK(r.breakdown.total() == r.step_time);
  }
}
