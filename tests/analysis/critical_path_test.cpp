#include "sim/analysis/critical_path.h"

#include <doctest/doctest.h>

#include "tests/support/cases.h"
#include "tests/support/plan_kinds.h"

using namespace foretrain;
using namespace foretrain::testing;

TEST_CASE("the critical path has no gaps, and what held it adds up to the step") {
  for (const PlanKind& kind : plan_kinds()) {
    CAPTURE(kind.name);
    const CaseReport report = simulate_plainly(case_of_kind(kind));
    const CriticalPath path = critical_path(report);
    REQUIRE_FALSE(path.parts.empty());
    CHECK((path.parts.back().end - path.parts.front().begin) == report.step_time);
    for (std::size_t i = 1; i < path.parts.size(); ++i) CHECK(path.parts[i].begin == path.parts[i - 1].end);
    CHECK(path.held.total() == doctest::Approx(report.step_time.seconds()).epsilon(1e-9));
    for (const auto& [name, seconds] : path.held.named()) CHECK(seconds > 0);
    const auto places = path.places();
    double all = 0;
    for (const CriticalPath::Place& place : places) {
      CHECK(place.visits > 0);
      all += place.held.total();
    }
    CHECK(all == doctest::Approx(report.step_time.seconds()).epsilon(1e-9));
    for (std::size_t i = 1; i < places.size(); ++i) CHECK(places[i - 1].held.total() >= places[i].held.total());
  }
}

TEST_CASE("a slow link holds the path that crosses it") {
  const CaseReport report = simulate_plainly(
      case_of(kSmallLlama +
              "cluster: {gpu: a100-sxm4-80gb, gpus: 16, gpus_per_node: 8, intra: nvswitch, nics: 1, nic_gbps: 1, "
              "net: ethernet}\n" +
              train(16) + "plan: {zero: 0, micro_batch: 1}"));
  const CriticalPath path = critical_path(report);
  CHECK(path.held.named().front().first == "nic");
  CHECK(path.held[HardwareRate::nic] > 0.9 * report.step_time.seconds());
  CHECK(path.places().front().longest.what.english() == "reduction of gradients");
}
