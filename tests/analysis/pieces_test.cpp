#include <doctest/doctest.h>

#include <set>
#include <string>

#include "tests/support/cases.h"

using namespace foretrain;
using namespace foretrain::testing;

TEST_CASE("the pieces of a pass add up to its make-up, to the picosecond") {
  const std::string rest =
      "cluster: {gpu: a100-sxm4-80gb, gpus: 8, gpus_per_node: 8, intra: nvswitch}\n"
      "train: {seq_len: 1024, global_batch: 16, precision: bf16}\n";
  const std::string gpt =
      "model: {arch: gpt, layers: 4, hidden: 2048, heads: 16, ffn: 8192, vocab: 51200}\nsoftware: megatron-lm\n";
  const std::string experts =
      "model: {arch: moe, layers: 4, hidden: 2048, heads: 16, vocab: 32000, experts: 8, top_k: 2, expert_ffn: 1408}\n"
      "software: megatron-core\n";
  for (const std::string& yaml : {gpt + rest + "plan: {tp: 2, pp: 2, micro_batch: 1}",
                                  gpt + rest + "plan: {zero: 1, micro_batch: 1, recompute: full}",
                                  experts + rest + "plan: {ep: 8, micro_batch: 1}"}) {
    CAPTURE(yaml);
    const CaseReport report = simulate_case(case_of(yaml), environment(), {.with_advice = false, .with_pieces = true});
    const Step& step = report.step;
    REQUIRE(step.pieces.size() == step.compositions.size());
    std::set<std::string> names;
    for (const TaskInfo& task : step.tasks) {
      if (!is_pass(task.kind)) continue;
      Time sum;
      for (const TaskPiece& piece : step.pieces[task.composition]) {
        CHECK(piece.duration > Time::zero());
        sum += piece.duration;
        names.insert(std::string(piece.of) + " " + piece.what);
      }
      CHECK(sum == step.compositions[task.composition].total());
    }
    CHECK(names.contains("attention forward"));
    CHECK(names.contains("head gemm"));
    CHECK(names.contains("attention output weight gradient"));
    const CaseReport plain = simulate_plainly(case_of(yaml));
    CHECK(plain.step.pieces.empty());
    CHECK(plain.schedule.fingerprint == report.schedule.fingerprint);
  }
}
