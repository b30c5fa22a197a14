#include "sim/report/claims_report.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "sim/report/case_figures.h"
#include "tests/support/cases.h"

using namespace foretrain;
using namespace foretrain::testing;

namespace {

Figures figures_of(const std::string& plan, const std::string& cluster = "{node: dgx-a100-80g}") {
  return report::case_figures(simulate_plainly(
      case_of("model: llama-2-7b\nsoftware: deepspeed\ntrain: {seq_len: 512, precision: bf16, optimizer: adamw, "
              "attention: flash2}\ncluster: " +
              cluster + "\nplan: " + plan)));
}

Check check_of(const std::string& yaml) {
  Diagnostics diagnostics;
  const auto check = read_check(*config::parse_yaml(yaml, "test", diagnostics), diagnostics);
  REQUIRE(check);
  return *check;
}

}  // namespace

TEST_CASE("figures are the numbers of the JSON, by path") {
  const Figures f = figures_of("{zero: 1, micro_batch: 1, recompute: full}");
  CHECK(f.at("fits") == 1);
  CHECK(f.at("gpus") == 8);
  CHECK(f.at("plan.zero") == 1);
  CHECK(f.at("breakdown_s.compute") > 0);
  CHECK(f.at("memory.states_bytes") ==
        f.at("memory.parts.weights") + f.at("memory.parts.gradients") + f.at("memory.parts.optimizer"));
  CHECK_FALSE(f.contains("cost.amount"));         // null
  CHECK_FALSE(f.contains("scaling_efficiency"));  // not looked for
}

TEST_CASE("data-parallel bytes are those of a ring: 2(n-1)/n of the gradients, half as much again for ZeRO-3") {
  const double gradients = 2 * figures_of("{zero: 0, micro_batch: 1}").at("model.parameters");
  const double once = gradients * 7 / 8;
  const auto sent = [](const std::string& plan, const std::string& cluster = "{node: dgx-a100-80g}") {
    return figures_of(plan, cluster).at("data_parallel_bytes");
  };
  CHECK(sent("{zero: 0, micro_batch: 1}") == doctest::Approx(2 * once));
  CHECK(sent("{zero: 3, micro_batch: 1, recompute: none}") == doctest::Approx(3 * once));
  // In-switch reduction moves less, and is counted as NCCL counts its bus bandwidth.
  CHECK(sent("{zero: 0, micro_batch: 1}", "{node: dgx-h100}") == doctest::Approx(2 * once));
  CHECK(sent("{zero: 0, micro_batch: 1}", "{node: dgx-a100-80g, gpus: 1}") == 0);
}

TEST_CASE("a claim in words, as a table and as JSON") {
  Claim claim;
  claim.id = "id-1";
  claim.says = "two is twice as slow";
  claim.tolerance = 0.03;
  claim.checks = {check_of("{ratio: step_time_s, of: [two, one], range: [2, 3], when: on a hot day}"),
                  check_of("{value: memory.gpu_peak_bytes, of: two, at_most: 20GB, when: small}"),
                  check_of("{fits: [one, two], missed: too large}")};
  JudgedClaim judged;
  judged.claim = &claim;
  judged.verdict = ClaimVerdict::depends;
  judged.checks = {{CheckOutcome{true, {4, 2}, 2}, {}},
                   {CheckOutcome{false, {24.4e9}, 24.4e9}, {}},
                   {std::nullopt, {"cluster.mig"}}};
  judged.waits_for = {"cluster.mig"};
  CHECK(report::because_of(judged).english() == "holds: on a hot day. Does not: small. not simulated yet: cluster.mig");
  CHECK(report::description_of(claim.checks[0]).english() == "step_time_s, two over one");

  const std::string table = report::claims_table(std::span(&judged, 1), report::Terminal{}, false);
  for (const char* part :
       {"1 claims: 1 depends", "depends  id-1 (ranges widened by 3 %)", "two is twice as slow", "2 to 3", "2.00",
        "at most 20 GB", "24.4 GB", "one and two fits", "cluster.mig", "known miss: too large"}) {
    CHECK_MESSAGE(table.find(part) != std::string::npos, part);
  }
  const auto json = nlohmann::json::parse(report::claims_json(std::span(&judged, 1)));
  CHECK(json["summary"]["depends"] == 1);
  CHECK(json["claims"][0]["checks"][0]["figure"] == 2.0);
  CHECK(json["claims"][0]["checks"][1]["range"][0].is_null());
  CHECK(json["claims"][0]["checks"][2]["holds"].is_null());
  CHECK(json["claims"][0]["checks"][2]["range"].is_null());
}
