#include "sim/analysis/explain.h"

#include <doctest/doctest.h>

#include <cmath>
#include <set>

#include "sim/plan/plan_request.h"
#include "tests/support/cases.h"
#include "tests/support/plan_kinds.h"

using namespace foretrain;
using namespace foretrain::testing;

namespace {

const TriedChange* find(const std::vector<TriedChange>& all, const std::string& name) {
  for (const TriedChange& tried : all) {
    if (tried.change.name == name) return &tried;
  }
  return nullptr;
}

}  // namespace

TEST_CASE("a plan written out in full is the same plan") {
  for (const PlanKind& kind : plan_kinds()) {
    CAPTURE(kind.name);
    const Case subject = case_of_kind(kind);
    const auto again = if_legal(subject);
    REQUIRE(again);
    CHECK(step_time(*again, environment()) == step_time(subject, environment()));
    CHECK(again->plan.offload == subject.plan.offload);
  }
}

TEST_CASE("an illegal plan is not tried") {
  Case subject = case_of(kSmallGpt + kA100Node + train(32) + "plan: {tp: 2, micro_batch: 2}");
  subject.plan.tp = 3;
  CHECK_FALSE(if_legal(subject));
}

TEST_CASE("stages' breakdowns add up to the step, and their mean is the whole's") {
  const CaseReport report =
      simulate_plainly(case_of(kSmallGpt + a100_nodes(2, 4) + train(64) + "plan: {pp: 4, micro_batch: 2}"));
  const std::vector<Breakdown> stages = stage_breakdowns(report);
  REQUIRE(stages.size() == 4);
  double compute = 0;
  for (const Breakdown& stage : stages) {
    CHECK(stage.total() == report.step_time);
    compute += stage[Cause::compute].seconds() / 4;
  }
  CHECK(compute == doctest::Approx(report.breakdown[Cause::compute].seconds()).epsilon(1e-9));
}

TEST_CASE("switches: each changes what it says, and only where it applies") {
  const Case alone =
      case_of(kSmallLlama +
              "cluster: {gpu: a100-sxm4-80gb, gpus: 1, gpus_per_node: 1, intra: nvswitch}\n"
              "train: {seq_len: 1024, global_batch: 8, precision: bf16, attention: standard}\nplan: {micro_batch: 2}");
  const auto tried = try_changes(software_switches(), {alone, environment()}, 2);
  const Time now = step_time(alone, environment());
  REQUIRE(find(tried, "flash-attention"));
  CHECK(find(tried, "flash-attention")->outcome.step_time < now);
  REQUIRE(find(tried, "full-recompute"));
  CHECK(find(tried, "full-recompute")->outcome.step_time > now);
  REQUIRE(find(tried, "fused-kernels"));
  CHECK(find(tried, "fused-kernels")->outcome.step_time < now);
  REQUIRE(find(tried, "micro-batch-double"));
  CHECK(find(tried, "micro-batch-double")->subject.plan.micro_batch == 4);
  // One GPU has nobody to talk to.
  for (const char* name :
       {"overlap-gradients-on", "overlap-gradients-off", "sequence-parallel-on", "larger-buckets", "zero-more"})
    CHECK_FALSE(find(tried, name));
}

TEST_CASE("smaller gradients and flash attention are not slower") {
  for (const PlanKind& kind : plan_kinds()) {
    CAPTURE(kind.name);
    const Case subject = case_of_kind(kind);
    const Time now = step_time(subject, environment());
    const auto tried = try_changes(software_switches(), {subject, environment()}, 2);
    std::set<std::string> names;
    for (const TriedChange& t : tried) CHECK(names.insert(t.change.name).second);
    // Buckets of as many bytes are fewer then, and the last is ready later.
    if (const auto* t = find(tried, "gradients-16bit")) CHECK(t->outcome.step_time.seconds() <= now.seconds() * 1.01);
    if (const auto* t = find(tried, "standard-attention"))
      CHECK(t->outcome.step_time.seconds() >= now.seconds() * 0.98);
  }
}

TEST_CASE("an explanation is the same for any number of threads, and agrees with the elasticities") {
  const Case subject = case_of(kSmallGpt + a100_nodes(2, 4) + train(64) + "plan: {pp: 4, micro_batch: 2}");
  const Explanation one = explain(subject, environment(), 1), many = explain(subject, environment(), 4);
  REQUIRE(one.hardware.size() == many.hardware.size());
  for (std::size_t i = 0; i < one.hardware.size(); ++i) {
    const Explanation::Faster& f = one.hardware[i];
    CHECK(f.twice == many.hardware[i].twice);
    CHECK(f.elasticity == many.hardware[i].elasticity);
    CAPTURE(std::string(to_string(f.rate)));
    if (!f.kink()) CHECK(f.elasticity == doctest::Approx(0.5 * (f.gain + f.loss)).epsilon(1e-3));
    // Twice the rate halves at most what the rate holds, and what waits for it.
    CHECK(f.twice <= one.report.step_time);
    CHECK(f.twice.seconds() >= 0.5 * one.report.step_time.seconds());
  }
  REQUIRE(one.software.size() == many.software.size());
  for (std::size_t i = 0; i < one.software.size(); ++i) {
    CHECK(one.software[i].outcome.step_time == many.software[i].outcome.step_time);
  }
}
