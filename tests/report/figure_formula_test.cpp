#include "sim/report/figure_formula.h"

#include <doctest/doctest.h>

#include <set>

#include "sim/report/case_figures.h"
#include "tests/support/cases.h"
#include "tests/support/plan_kinds.h"

using namespace foretrain;
using namespace foretrain::report;
using namespace foretrain::testing;

TEST_CASE("formulas give the figures that are printed") {
  for (const PlanKind& kind : plan_kinds()) {
    CAPTURE(kind.name);
    Case subject = case_of_kind(kind);
    subject.price = Case::Price{12000, "CNY", Case::Price::Per::month};
    subject.train.tokens = 1e9;
    const CaseReport report = simulate_plainly(subject);
    const Figures printed = case_figures(report);
    std::set<std::string> explained;
    for (const FigureFormula& f : figure_formulas(report)) {
      CAPTURE(f.figure);
      CHECK(explained.insert(f.figure).second);
      CHECK_FALSE(f.inputs.empty());
      if (f.figure == "model_flops") continue;  // an input of others; has no place of its own in JSON
      const auto at = printed.find(f.figure);
      REQUIRE(at != printed.end());
      CHECK(f.value == doctest::Approx(at->second).epsilon(1e-8));
    }
    for (const char* figure : {"step_time_s", "tokens_per_s", "mfu", "hfu", "model_tflops_per_gpu", "bubble_fraction",
                               "memory.gpu_peak_bytes", "breakdown_s.compute", "cost.hours", "cost.amount"})
      CHECK_MESSAGE(explained.contains(figure), figure);
  }
}

TEST_CASE("a formula's inputs are the figures it names") {
  const CaseReport report =
      simulate_plainly(case_of(kSmallGpt + kA100Node + train(32) + "plan: {zero: 1, micro_batch: 2}"));
  double flops = 0, used = 0;
  for (const FigureFormula& f : figure_formulas(report)) {
    if (f.figure == "model_flops") flops = f.value;
    if (f.figure == "mfu") used = f.inputs.front().value;
    if (f.figure == "memory.parts.optimizer") CHECK(f.inputs.back().value == 8);  // ranks that share it
  }
  CHECK(flops > 0);
  CHECK(flops == doctest::Approx(used).epsilon(1e-12));
}
