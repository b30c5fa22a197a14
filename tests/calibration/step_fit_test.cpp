#include "sim/calibration/step_fit.h"

#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "tests/support/cases.h"

using namespace foretrain;
using namespace foretrain::testing;

namespace {

Environment without_factors() {
  Environment e = environment();
  e.factors = {};
  return e;
}

// Runs that a GPU with a known sustained rate and a framework with known host times would take.
std::vector<StepObservation> runs_of(const StepFactors& truth) {
  std::vector<StepObservation> runs;
  for (const char* hidden : {"1024", "2048", "4096", "8192"}) {
    for (int batch : {8, 32}) {
      const Case c = case_of(std::string("model: {arch: llama, layers: 8, hidden: ") + hidden +
                             ", heads: 16, ffn: 8192, vocab: 32000}\nsoftware: megatron-core\n"
                             "cluster: {gpu: a100-sxm4-80gb, gpus: 8, gpus_per_node: 8, intra: nvswitch}\n"
                             "train: {seq_len: 2048, global_batch: " +
                             std::to_string(batch) + ", precision: bf16}\nplan: {zero: 1, micro_batch: 1}");
      Environment e = without_factors();
      e.factors = truth;
      runs.push_back(
          {c, simulate_case(c, e, {.with_advice = false, .with_elasticity = false}).step_time.seconds(), "made up"});
    }
  }
  return runs;
}

}  // namespace

TEST_CASE("factors that made the data are found again, but for what the prior holds back") {
  StepFactors truth;
  truth.gpus["a100-sxm4-80gb"].matmul_16 = 0.93;
  truth.software["megatron-core"].elementwise = 1.2;
  const StepFit fit = fit_step_factors(runs_of(truth), without_factors(), 2);
  CHECK(fit.error_before > 0.03);
  CHECK(fit.error_after < 0.7 * fit.error_before);
  CHECK(fit.factors.gpus.at("a100-sxm4-80gb").matmul_16 < 0.99);
  CHECK(fit.factors.software.at("megatron-core").elementwise > 1.0);
}

TEST_CASE("right predictions leave every factor at one") {
  const StepFit fit = fit_step_factors(runs_of({}), without_factors(), 2);
  for (const FittedFactor& f : fit.fitted) CHECK(f.value == doctest::Approx(1.0).epsilon(0.002));
}

TEST_CASE("one absurd run does not bend the fit") {
  std::vector<StepObservation> runs = runs_of({});
  runs.front().measured_s *= 3;
  const StepFit fit = fit_step_factors(runs, without_factors(), 2);
  for (const FittedFactor& f : fit.fitted) {
    CAPTURE(f.owner + "." + f.name);
    CHECK(std::abs(std::log(f.value)) < f.prior_width);
  }
}

TEST_CASE("the fit and its file do not depend on the number of threads") {
  StepFactors truth;
  truth.gpus["a100-sxm4-80gb"].matmul_16 = 0.95;
  const std::vector<StepObservation> runs = runs_of(truth);
  CHECK(to_yaml(fit_step_factors(runs, without_factors(), 1), runs) ==
        to_yaml(fit_step_factors(runs, without_factors(), 3), runs));
}

TEST_CASE("observations leave out flagged runs, files of low trust, and all but 128 of a source") {
  Diagnostics diagnostics;
  const auto observations = load_observations(data_folder(), diagnostics);
  CHECK_FALSE(diagnostics.has_errors());
  int vtrain = 0;
  for (const StepObservation& o : observations) {
    CHECK_FALSE(o.source.ends_with("-low"));
    CHECK_FALSE(o.source.ends_with("-ext"));
    CHECK(o.subject.name != "mtnlg-530b-280nodes");
    vtrain += o.source == "vtrain-single-node-dev";
  }
  CHECK(vtrain == 128);
}

TEST_CASE("a source left out is predicted by the others; one that agrees with them loses nothing") {
  StepFactors truth, other;
  truth.gpus["a100-sxm4-80gb"].matmul_16 = 0.93;
  std::vector<StepObservation> runs;
  for (const char* source : {"a", "b", "odd"}) {
    for (StepObservation& o : runs_of(source == std::string("odd") ? other : truth)) {
      o.source = source;
      runs.push_back(o);
    }
  }
  const StepFit fit = fit_step_factors(runs, without_factors(), 2);
  const std::vector<LeftOut> results = leave_sources_out(runs, fit, without_factors(), 2);
  REQUIRE(results.size() == 3);
  for (const LeftOut& r : results) {
    CAPTURE(r.source);
    CHECK(r.rows == 8);
    CHECK(r.error_out >= r.error_in - 0.002);
  }
  CHECK(results[2].error_out > results[2].error_in + 0.005);
  // The shortcut of linear predictions agrees with fitting anew.
  std::vector<StepObservation> others, own;
  for (const StepObservation& o : runs) (o.source == "odd" ? own : others).push_back(o);
  const StepFit anew = fit_step_factors(others, without_factors(), 2);
  double error = 0;
  for (const StepObservation& o : own) {
    Environment e = without_factors();
    e.factors = anew.factors;
    error +=
        std::abs(simulate_case(o.subject, e, {.with_advice = false, .with_elasticity = false}).step_time.seconds() /
                     o.measured_s -
                 1) /
        8;
  }
  CHECK(results[2].error_out == doctest::Approx(error).epsilon(0.05));

  const std::string text = to_yaml(results);
  CHECK(text.find("  odd: {rows: 8, fitted: ") != std::string::npos);
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / "foretrain-left-out-test";
  std::filesystem::create_directories(folder / "hardware/calibrated");
  std::ofstream(folder / "hardware/calibrated/leave_out.yaml") << text;
  Diagnostics diagnostics;
  const std::vector<LeftOut> read = load_left_out({folder.string()}, diagnostics);
  std::filesystem::remove_all(folder);
  CHECK(diagnostics.all().empty());
  REQUIRE(read.size() == 3);
  CHECK(read[1].source == "b");
  CHECK(mean_of(read).error_out == doctest::Approx(mean_of(results).error_out).epsilon(0.01));
  CHECK(load_left_out({folder.string()}, diagnostics).empty());
}
