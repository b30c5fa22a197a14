// Plans that were published as tuned, among all that their framework offered at the time.

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <string>

#include "sim/planner/planner.h"
#include "sim/planner/space.h"
#include "tests/support/cases.h"

using namespace foretrain;
using foretrain::testing::data_folder;
using foretrain::testing::environment;

namespace {

constexpr double kBest = 0.05;  // of the legal plans

struct Ranked {
  double faster = 0;  // of the legal plans
  Time own, best;
  bool fits = true;
};

Ranked rank(const Case& published, const PlanRequest& fixed) {
  Diagnostics diagnostics;
  Case own = published, open = published;
  const auto plan = resolve_plan(*published.open_plan, own.model, own.train, own.cluster, own.software, diagnostics);
  REQUIRE(plan);
  own.plan = *plan;
  own.open_plan.reset();
  open.open_plan = with_fixed(without_choices(*published.open_plan), fixed);
  const auto answer = find_plans(open, environment(), {.top = 1, .threads = 2, .own = &own}, diagnostics);
  REQUIRE(answer);
  REQUIRE(!answer->best.empty());
  const CaseReport& report = answer->own->plan.report;
  return {static_cast<double>(answer->own->faster) / static_cast<double>(answer->counts.legal), report.step_time,
          answer->best.front().report.step_time, report.fits};
}

std::map<std::string, Case> published(const std::string& file) {
  Diagnostics diagnostics;
  const auto scenario = load_scenario(FORETRAIN_SOURCE_DIR "/tests/validation/measured/" + file, data_folder(),
                                      diagnostics, OpenPlans::all);
  REQUIRE(scenario);
  std::map<std::string, Case> cases;
  for (const Case& c : scenario->cases) cases.emplace(c.name, c);
  return cases;
}

void check(const Ranked& r, double at_most) {
  CHECK(r.faster <= at_most);
  if (r.fits) CHECK(r.best <= r.own);
}

}  // namespace

TEST_CASE("the plans of SC'21 are among the best of their time") {
  const std::map<std::string, Case> cases = published("sc21-megatron.yaml");
  PlanRequest recomputed;
  recomputed.recompute = Recompute{Recompute::Mode::full, 0, {}};
  // They all recompute everything, which costs a fourth of the step where memory would do without; beside others that
  // do so they rank higher.
  for (const char* name : {"sc21-t1-1.7b", "sc21-t1-3.6b", "sc21-t1-7.5b", "sc21-t1-76b"}) {
    CAPTURE(name);
    check(rank(cases.at(name), recomputed), kBest);
    check(rank(cases.at(name), {}), 0.1);
  }
  // Eight ways of tensor parallelism where two or four and a pipeline are faster, as runs of 39B on 512 GPUs also show:
  // 13.9 s with tp 4 and pp 4 beside 14.8 s and more with tp 8 (vTrain, vtrain-multi-node-dev.yaml).
  for (const char* name : {"sc21-t1-18b", "sc21-t1-39b"}) {
    CAPTURE(name);
    check(rank(cases.at(name), recomputed), 0.15);
  }
}

TEST_CASE("the recipes of NeMo 24.07 are among the best") {
  for (const auto& [name, c] : published("nemo-2407-h100.yaml")) {
    CAPTURE(name);
    if (c.cluster.gpus <= 16) check(rank(c, {}), kBest);
  }
}
