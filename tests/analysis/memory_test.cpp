#include <doctest/doctest.h>

#include <set>

#include "tests/support/cases.h"

using namespace foretrain;
using namespace foretrain::testing;

namespace {

const std::string kSeven =
    "model: llama-2-7b\ncluster: {gpu: a100-sxm4-80gb, gpus: 8, gpus_per_node: 8, intra: nvswitch}\n"
    "train: {seq_len: 2048, global_batch: 64, precision: bf16}\n";

Bytes states(const CaseReport& r) {
  const MemoryParts& p = r.memory[r.fullest].parts;
  return p.weights + p.gradients + p.optimizer;
}

}  // namespace

TEST_CASE("7e9 parameters need 112 GB of states on one GPU and 26.25 GB on each of eight with ZeRO-2") {
  const Case sharded = case_of(kSeven + "software: deepspeed\nplan: {zero: 2, micro_batch: 1, recompute: full}");
  const CaseReport report = simulate_plainly(sharded);
  const double per_parameter = states(report).value / report.step.layouts[0].parameters();
  CHECK(per_parameter * 7e9 == doctest::Approx(26.25e9));

  const Case whole = case_of(
      "model: llama-2-7b\ncluster: {gpu: h200, gpus: 1, gpus_per_node: 1, intra: nvswitch}\n"
      "train: {seq_len: 2048, global_batch: 1, precision: bf16}\nsoftware: deepspeed\nplan: {micro_batch: 1}");
  const CaseReport one = simulate_plainly(whole);
  CHECK(states(one).value / one.step.layouts[0].parameters() * 7e9 == doctest::Approx(112e9));
}

TEST_CASE("each ZeRO stage holds less than the one before") {
  Bytes before{1e18};
  for (int zero = 0; zero <= 3; ++zero) {
    const Case c = case_of(kSeven + "software: deepspeed\nplan: {zero: " + std::to_string(zero) +
                           ", micro_batch: 1, recompute: full}");
    const Bytes now = states(simulate_plainly(c));
    CHECK(now < before);
    before = now;
  }
}

TEST_CASE("what the passes take they give back") {
  for (const char* plan : {"pp: 4, micro_batch: 1", "pp: 4, schedule: gpipe, micro_batch: 1", "pp: 2, vpp: 4, micro_batch: 1",
                           "tp: 4, sequence_parallel: true, micro_batch: 1, recompute: selective",
                           "tp: 2, pp: 2, recompute: {blocks: 3}, micro_batch: 1"}) {
    CAPTURE(std::string(plan));
    const Case c = case_of(kSeven + "software: megatron-core\nplan: {" + plan + "}");
    const CaseReport report = simulate_plainly(c);
    const std::vector<StageMemory> memories = stage_memories(report.subject, report.step.layouts);
    for (const StagePeak& peak : report.memory) {
      CHECK(peak.parts.total() >= memories[static_cast<std::size_t>(peak.stage)].always.total());
      // Activations at the peak are a whole number of micro-batches of the stage's chunks, none forgotten.
      CHECK(peak.parts.activations.value > 0);
    }
    for (std::size_t rank = 0; rank < report.step.stage.size(); ++rank) {
      CHECK(bytes_left(memories[static_cast<std::size_t>(report.step.stage[rank])], report.step, rank).total().value ==
            doctest::Approx(memories[static_cast<std::size_t>(report.step.stage[rank])].always.total().value));
    }
  }
}

TEST_CASE("1F1B keeps as many micro-batches as there are stages behind, GPipe all of them") {
  const std::string base = kSeven + "software: megatron-core\nplan: {pp: 4, micro_batch: 1, ";
  const CaseReport steady = simulate_plainly(case_of(base + "schedule: 1f1b}"));
  const CaseReport flood = simulate_plainly(case_of(base + "schedule: gpipe}"));
  const double one = stage_memories(steady.subject, steady.step.layouts)[0].chunks[0].kept.value;
  CHECK(steady.memory[0].parts.activations.value == doctest::Approx(4 * one));
  CHECK(steady.memory[1].parts.activations.value == doctest::Approx(3 * one));
  CHECK(flood.memory[0].parts.activations.value == doctest::Approx(32 * one));
}

TEST_CASE("a plan that does not fit says how much is missing and what would fit") {
  const Case c = case_of(
      "model: llama-2-13b\ncluster: {gpu: a100-sxm4-40gb, gpus: 8, gpus_per_node: 8, intra: nvswitch}\n"
      "train: {seq_len: 2048, global_batch: 64, precision: bf16}\nsoftware: deepspeed\nplan: {zero: 2, micro_batch: 4}");
  const CaseReport report = simulate_case(c, environment());
  CHECK_FALSE(report.fits);
  REQUIRE_FALSE(report.changes.empty());
  for (const FittingChange& change : report.changes) CHECK(change.needed <= report.capacity);
}

TEST_CASE("micro_batch: auto is the largest that fits") {
  const std::string base =
      "model: llama-2-7b\ncluster: {gpu: a100-sxm4-80gb, gpus: 8, gpus_per_node: 8, intra: nvswitch}\n"
      "train: {seq_len: 2048, global_batch: 512, precision: bf16}\nsoftware: deepspeed\nplan: {zero: 2, ";
  const CaseReport found = simulate_plainly(case_of(base + "micro_batch: auto}"));
  CHECK(found.fits);
  const auto b = found.subject.plan.micro_batch;
  CHECK_FALSE(simulate_plainly(case_of(base + "micro_batch: " + std::to_string(2 * b) + "}")).fits);
}

TEST_CASE("fewer bytes a parameter cannot need more memory: recompute and sequence parallelism") {
  const auto needed = [](const std::string& plan) {
    const CaseReport r = simulate_plainly(case_of(kSeven + "software: megatron-core\nplan: {" + plan + "}"));
    return r.memory[r.fullest].needed;
  };
  CHECK(needed("tp: 4, micro_batch: 2, recompute: full") < needed("tp: 4, micro_batch: 2, recompute: none"));
  CHECK(needed("tp: 4, micro_batch: 2, recompute: {blocks: 16}") < needed("tp: 4, micro_batch: 2, recompute: none"));
  CHECK(needed("tp: 4, micro_batch: 2, sequence_parallel: true") < needed("tp: 4, micro_batch: 2"));
}
