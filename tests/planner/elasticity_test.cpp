#include <doctest/doctest.h>

#include <filesystem>

#include "sim/planner/planner.h"
#include "tests/support/effort.h"
#include "tests/support/rates.h"

using namespace foretrain;
using namespace foretrain::testing;

namespace {

// The cases of all scenarios, with the plan that `plan: auto` stands for.
std::vector<Case> scenario_cases() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(FORETRAIN_SOURCE_DIR "/scenarios")) {
    if (entry.path().extension() == ".yaml") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::vector<Case> cases;
  for (const auto& file : files) {
    Diagnostics diagnostics;
    const auto scenario = load_scenario(file.string(), data_folder(), diagnostics, OpenPlans::automatic);
    REQUIRE(scenario);
    for (Case c : scenario->cases) {
      if (c.open_plan) {
        const auto answer = find_plans(c, environment(), {.top = 1, .threads = 2}, diagnostics);
        REQUIRE(answer);
        c.plan = answer->best.front().report.subject.plan;
        c.open_plan.reset();
      }
      c.name = file.stem().string() + ", " + c.name;
      cases.push_back(std::move(c));
    }
  }
  return cases;
}

}  // namespace

TEST_CASE(
    "scenarios: elasticities are what a percent more or less of a rate changes, and twice as fast is never slower") {
  std::set<std::string> kinks;
  std::size_t pairs = 0;
  const std::vector<Case> cases = scenario_cases();
  for (std::size_t i = 0; i < cases.size(); i += kSanitized ? 5 : 1) {
    const Case& c = cases[i];
    check_elasticities(c.name, c, kinks);
    check_twice_as_fast(c.name, c);
    pairs += all_rates().size();
  }
  for (const std::string& kink : kinks) MESSAGE(kink);
  CHECK(kinks.size() * 25 <= pairs);
}
