#include "sim/report/json.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/report/support.h"

using namespace foretrain;
using namespace foretrain::report;
using nlohmann::json;

TEST_CASE("a mixed job says how many GPUs of each kind it has") {
  CaseReport mixed = report::testing::hand_made("mixed");
  ClusterDescription& cluster = mixed.subject.cluster;
  cluster.other_gpus.push_back(cluster.gpu);
  cluster.other_gpus.front().name = "other card";
  cluster.odd_gpus = {{.number = 0, .kind = 0, .speed = 0.7}, {.number = 1, .kind = 1}, {.number = 2, .kind = 1}};
  const json answer = json::parse(run_json(report::testing::run_of({mixed, report::testing::hand_made("alike")})));
  CHECK(answer["cases"][0]["cluster"]["gpu_kinds"] ==
        json::parse(R"([{"gpu": "card", "gpus": 6}, {"gpu": "other card", "gpus": 2}])"));
  CHECK_FALSE(answer["cases"][1]["cluster"].contains("gpu_kinds"));
}

TEST_CASE("every key of the contract is there") {
  const json answer = json::parse(run_json(report::testing::run_of({report::testing::hand_made("one")})));
  REQUIRE(answer["cases"].size() == 1);
  const json& one = answer["cases"][0];
  for (const char* key : {"name",
                          "fits",
                          "step_time_s",
                          "tokens_per_s",
                          "tokens_per_s_per_gpu",
                          "samples_per_s",
                          "model_tflops_per_gpu",
                          "mfu",
                          "hfu",
                          "bubble_fraction",
                          "offload_stall_s",
                          "scaling_efficiency",
                          "breakdown_s",
                          "memory",
                          "step_time_range_s",
                          "confidence",
                          "nearest_measured",
                          "simulated_ranks",
                          "total_ranks",
                          "fingerprint",
                          "elasticity",
                          "plan",
                          "cost",
                          "warnings",
                          "assumptions",
                          "breakdown_ps",
                          "step_time_ps",
                          "stages"}) {
    CHECK_MESSAGE(one.contains(key), key);
  }
  for (const char* key : {"compute", "launch", "tp_comm", "cp_comm", "ep_comm", "dp_comm", "zero_comm", "pp_comm",
                          "bubble", "offload", "optimizer", "other"}) {
    CHECK_MESSAGE(one["breakdown_s"].contains(key), key);
    CHECK_MESSAGE(one["breakdown_ps"].contains(key), key);
  }
  for (const char* key : {"gpu_peak_bytes", "gpu_capacity_bytes", "host_peak_bytes", "nvme_bytes", "parts"}) {
    CHECK_MESSAGE(one["memory"].contains(key), key);
  }
  for (const char* key : {"winner", "ratio", "because"}) CHECK_MESSAGE(answer["verdict"].contains(key), key);
}

TEST_CASE("figures are exact and consistent") {
  const json answer = json::parse(run_json(report::testing::run_of({report::testing::hand_made("one")})));
  const json& one = answer["cases"][0];
  CHECK(one["step_time_ps"] == 1'000'000'000'001);
  CHECK(one["step_time_s"].get<double>() == 1.000000000001);
  std::int64_t picoseconds = 0;
  double seconds = 0;
  for (const json& part : one["breakdown_ps"]) picoseconds += part.get<std::int64_t>();
  for (const json& part : one["breakdown_s"]) seconds += part.get<double>();
  CHECK(picoseconds == one["step_time_ps"].get<std::int64_t>());
  CHECK(seconds == doctest::Approx(one["step_time_s"].get<double>()).epsilon(1e-14));

  std::int64_t bytes = 0;
  for (const json& part : one["memory"]["parts"]) bytes += part.get<std::int64_t>();
  CHECK(bytes == one["memory"]["gpu_peak_bytes"].get<std::int64_t>());
  CHECK(one["memory"]["stage"] == 0);
  CHECK(one["memory"]["gpu_capacity_bytes"] == 42949672960);
  CHECK(one["missing_bytes"] == 0);
  REQUIRE(one["stages"].size() == 2);
  CHECK(one["stages"][1]["gpu_peak_bytes"] < one["stages"][0]["gpu_peak_bytes"]);
  CHECK(one["fingerprint"] == "0000000000abcdef");
  CHECK(one["ranks"].size() == 2);
  CHECK(one["ranks"][1]["gpus"] == 4);
  CHECK(one["plan"]["pp"] == 2);
  CHECK(one["plan"]["recompute"] == "none");
  CHECK(one["warnings"] == json::array({"odd but legal"}));
  CHECK(one["scaling_efficiency"].is_null());
  CHECK(one["cost"].is_null());
}

TEST_CASE("a case that does not fit says what is missing and what would fit") {
  const json answer = json::parse(run_json(report::testing::run_of({report::testing::too_large("large")})));
  const json& large = answer["cases"][0];
  CHECK(large["fits"] == false);
  CHECK(large["step_time_s"].get<double>() > 1);
  CHECK(large["missing_bytes"].get<double>() == doctest::Approx(5 * kGiB));
  REQUIRE(large["changes"].size() == 2);
  CHECK(large["changes"][0]["change"] == "micro_batch: 2");
  CHECK(large["changes"][0]["step_time_s"] == 1.25);
  CHECK(large["changes"][1]["step_time_s"].is_null());
}

TEST_CASE("optional figures") {
  CaseReport r = report::testing::hand_made("priced");
  r.subject.price = Case::Price{20000, "CNY", Case::Price::Per::month};
  r.cost_per_billion_tokens = 12.5;
  r.hours = 100.0;
  r.scaling_efficiency = 0.9;
  r.scaling_baseline_gpus = 2;
  r.subject.plan.recompute = {Recompute::Mode::blocks, 3};
  const json answer = json::parse(run_json(report::testing::run_of({r})));
  const json& one = answer["cases"][0];
  CHECK(one["cost"]["hours"] == 100.0);
  CHECK(one["cost"]["amount"].is_null());
  CHECK(one["cost"]["currency"] == "CNY");
  CHECK(one["scaling_efficiency"] == 0.9);
  CHECK(one["scaling_baseline_gpus"] == 2);
  CHECK(one["plan"]["recompute"]["blocks"] == 3);
}

TEST_CASE("no winner is null") {
  RunReport run = report::testing::run_of({report::testing::too_large("large")});
  run.verdict = {"", 1.0, {{message("no case fits")}}, {}};
  CHECK(json::parse(run_json(run))["verdict"]["winner"].is_null());
}

TEST_CASE("names that are not UTF-8 are still JSON") {
  const std::string text = run_json(report::testing::run_of({report::testing::hand_made("bad \xff\xfe \" name\n")}));
  CHECK(json::accept(text));
}

TEST_CASE("validation: every key of the contract") {
  Validation v;
  v.sources.push_back({"dir/runs.yaml", "Runs", "", {}, 1});
  Comparison c;
  c.name = "one";
  c.measured_step_time_s = 2.0;
  c.predicted_step_time_s = 3.0;
  c.predicted_oom = false;
  v.cases = {c};
  v.refused = {{"two", 0, "plan.offload", false}};
  v.summary = accuracy(v.cases);
  v.sources[0].accuracy = v.summary;
  const json answer = json::parse(validation_json(v));
  const json& one = answer["cases"][0];
  for (const char* key :
       {"name", "source", "measured_step_time_s", "predicted_step_time_s", "error", "measured_memory_bytes",
        "predicted_memory_bytes", "memory_error", "measured_oom", "predicted_oom"}) {
    CHECK_MESSAGE(one.contains(key), key);
  }
  for (const char* key : {"cases", "refused", "mape", "median_ape", "p90_ape", "bias", "memory_mape", "oom_accuracy",
                          "pairwise_order_accuracy"}) {
    CHECK_MESSAGE(answer["summary"].contains(key), key);
  }
  CHECK(one["source"] == "runs");
  CHECK(one["error"] == 0.5);
  CHECK(one["memory_error"].is_null());
  CHECK(answer["summary"]["mape"] == 0.5);
  CHECK(answer["summary"]["refused"][0]["why"] == "plan.offload");
  CHECK(answer["by_source"][0]["refused"] == 1);
  CHECK_FALSE(one.contains("failure"));
}
