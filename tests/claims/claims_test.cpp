#include "sim/claims/claims.h"

#include <doctest/doctest.h>

#include "tests/support/cases.h"
#include "tests/support/text.h"

using namespace foretrain;
using namespace foretrain::testing;

namespace {

const std::string kBase = R"(
base:
  model: gpt2
  software: deepspeed
  train: {seq_len: 512, precision: bf16, optimizer: adamw, attention: flash2}
  cluster: {gpu: a100-sxm4-80gb, gpus: 1, gpus_per_node: 1, intra: pcie}
  plan: {micro_batch: 1}
claims:
)";

std::string file_errors_of(const std::string& text) {
  Diagnostics diagnostics;
  const auto node = config::parse_yaml(text, "test", diagnostics);
  REQUIRE(node);
  CHECK_FALSE(read_claims(*node, data_folder(), diagnostics));
  return foretrain::testing::shown(diagnostics);
}

ClaimFile file_of(const std::string& claims) {
  Diagnostics diagnostics;
  const auto node = config::parse_yaml(kBase + claims, "test", diagnostics);
  REQUIRE(node);
  auto file = read_claims(*node, data_folder(), diagnostics);
  if (!file) throw std::runtime_error(to_string(diagnostics.all().front()));
  return *file;
}

// Figures that say which case was simulated: the batch as step time.
Figures batch_as_time(const Case& c) {
  return {{"step_time_s", static_cast<double>(c.train.global_batch)},
          {"memory.gpu_peak_bytes", 1.0},
          {"memory.gpu_capacity_bytes", 2.0}};
}

std::vector<JudgedClaim> judged(const ClaimFile& file, int threads = 1) {
  Diagnostics diagnostics;
  auto result = judge_claims(std::span(&file, 1), batch_as_time, threads, diagnostics);
  CHECK_FALSE(diagnostics.has_errors());
  return result;
}

const std::string kTwoCases =
    "  cases: [{name: one, train: {global_batch: 1}}, {name: two, train: {global_batch: 2}}]\n";

}  // namespace

TEST_CASE("the verdict follows from the checks") {
  const auto verdict = [](const std::string& checks) {
    const ClaimFile file = file_of("- id: x\n  claim: y\n" + kTwoCases + "  checks:\n" + checks);
    return judged(file)[0].verdict;
  };
  const std::string right = "  - {ratio: step_time_s, of: [two, one], range: [2, 2]}\n";
  const std::string wrong = "  - {ratio: step_time_s, of: [one, two], range: [2, 2]}\n";
  CHECK(verdict(right) == ClaimVerdict::confirmed);
  CHECK(verdict(right + right) == ClaimVerdict::confirmed);
  CHECK(verdict(right + wrong) == ClaimVerdict::depends);
  CHECK(verdict(wrong + wrong) == ClaimVerdict::wrong);
}

TEST_CASE("what is not simulated leaves a claim open, and is named") {
  const std::string cases =
      "  cases: [{name: one, train: {global_batch: 1}}, {name: moe, train: {precision: mxfp8}}]\n  checks:\n";
  const auto claim = [&](const std::string& checks) { return "- id: x\n  claim: y\n" + cases + checks; };
  const std::string open = "  - {fits: moe}\n", held = "  - {fits: one}\n", failed = "  - {oom: one}\n";

  const ClaimFile file = file_of(claim(held + open));
  const JudgedClaim judged_claim = judged(file)[0];
  CHECK(judged_claim.verdict == ClaimVerdict::not_judged);
  CHECK(judged_claim.waits_for == std::vector<std::string>{"train.precision=mxfp8"});
  CHECK(judged_claim.checks[0].outcome->holds);
  CHECK_FALSE(judged_claim.checks[1].outcome);
  CHECK(judged_claim.checks[1].waits_for == std::vector<std::string>{"train.precision=mxfp8"});
  // One that held and one that did not is enough to know that it depends.
  const ClaimFile both = file_of(claim(held + failed + open));
  CHECK(judged(both)[0].verdict == ClaimVerdict::depends);
}

TEST_CASE("needs and out_of_scope take the place of cases") {
  const ClaimFile file =
      file_of("- {id: a, claim: y, needs: [inference]}\n- {id: b, claim: z, out_of_scope: a question of taste}\n");
  const auto claims = judged(file);
  CHECK(claims[0].verdict == ClaimVerdict::not_judged);
  CHECK(claims[0].waits_for == std::vector<std::string>{"inference"});
  CHECK(claims[1].verdict == ClaimVerdict::out_of_scope);
}

TEST_CASE("what simulation throws is the claim's failure, what is out of proportion an error") {
  const ClaimFile file = file_of("- id: x\n  claim: y\n" + kTwoCases + "  checks: [{fits: [one, two]}]\n");
  Diagnostics diagnostics;
  const auto failed = judge_claims(
      std::span(&file, 1), [](const Case&) -> Figures { throw std::logic_error("deadlock"); }, 1, diagnostics);
  CHECK(failed[0].verdict == ClaimVerdict::not_judged);
  CHECK(failed[0].failure.find("deadlock") != std::string::npos);
  CHECK_FALSE(diagnostics.has_errors());
  judge_claims(
      std::span(&file, 1), [](const Case&) -> Figures { throw std::overflow_error(""); }, 1, diagnostics);
  CHECK(diagnostics.error_count() == 2);  // of both cases
}

TEST_CASE("the base of a claim lies over that of the file") {
  const ClaimFile file = file_of(
      "- id: x\n  claim: y\n  base: {train: {global_batch: 7}}\n  cases: [{name: one}, {name: two, train: "
      "{global_batch: 9}}]\n  checks: [{delta: step_time_s, of: [two, one], range: [2, 2]}]\n");
  CHECK(file.claims[0].cases[0].subject->train.global_batch == 7);
  CHECK(judged(file)[0].verdict == ClaimVerdict::confirmed);
}

TEST_CASE("files that are wrong are reported in full") {
  CHECK(file_errors_of("title: x").find("claims must be a list") != std::string::npos);
  CHECK(file_errors_of("claims: []").find("claims must be a list") != std::string::npos);
  CHECK(file_errors_of("claims: [{id: x, claim: y}]").find("needs cases and checks") != std::string::npos);
  CHECK(file_errors_of("claims: [x]") != "");
  CHECK(file_errors_of("base: 3\nclaims: [{id: x, claim: y, needs: z}]").find("base must be a map") !=
        std::string::npos);
  const std::string twice = kBase + "- {id: x, claim: y, needs: z}\n- {id: x, claim: y, needs: z}\n";
  CHECK(file_errors_of(twice).find("a second claim is called 'x'") != std::string::npos);

  const std::string claim = "- id: x\n  claim: y\n" + kTwoCases;
  const std::string unknown = file_errors_of(kBase + claim + "  checks: [{fits: tow}, {oom: one, range: [1, 2]}]\n");
  CHECK(unknown.find("says nothing") != std::string::npos);
  const std::string typo = file_errors_of(kBase + claim + "  checks: [{fits: [one, tow]}]\n");
  CHECK(typo.find("has no case 'tow'; did you mean 'two'") != std::string::npos);
  CHECK(file_errors_of(kBase + claim + "  checks: []\n").find("1 to") != std::string::npos);
  CHECK(file_errors_of(kBase + claim + "  tolerance: 2\n  checks: [{fits: one}]\n") != "");
  const std::string model =
      file_errors_of(kBase + "- id: x\n  claim: y\n  cases: [{name: one, model: gpt22}]\n  checks: [{fits: one}]\n");
  CHECK(model.find("gpt22") != std::string::npos);
}

TEST_CASE("the same for any number of threads") {
  const ClaimFile file =
      file_of("- id: x\n  claim: y\n" + kTwoCases + "  checks: [{delta: step_time_s, of: [two, one], at_most: 0}]\n");
  CHECK(judged(file, 1)[0].checks[0].outcome->of_cases == judged(file, 8)[0].checks[0].outcome->of_cases);
}
