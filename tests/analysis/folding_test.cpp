#include <doctest/doctest.h>

#include "tests/support/cases.h"
#include "tests/support/plan_kinds.h"

using namespace foretrain;
using namespace foretrain::testing;

TEST_CASE("folding symmetric ranks changes no picosecond") {
  for (const PlanKind& kind : plan_kinds()) {
    CAPTURE(kind.name);
    const Case subject = case_of_kind(kind);
    const CaseReport folded = simulate_plainly(subject);
    const CaseReport unfolded = simulate_plainly(subject, Communicators::Folding::none);
    CHECK(folded.step_time.ps == unfolded.step_time.ps);
    CHECK(unfolded.step.simulated_ranks == subject.plan.gpus());
    CHECK(folded.step.simulated_ranks <= unfolded.step.simulated_ranks);
    // Each GPU's own account is the same too, not only the end.
    for (std::size_t i = 0; i < kCauses; ++i) {
      CAPTURE(std::string(to_string(static_cast<Cause>(i))));
      CHECK(folded.breakdown.parts[i].ps == unfolded.breakdown.parts[i].ps);
    }
  }
}

TEST_CASE("symmetric jobs fold to one rank a stage") {
  CHECK(simulate_plainly(case_of(plan_kinds()[0].yaml)).step.simulated_ranks == 1);
  const Case pipeline = case_of(
      "model: gpt-3-175b\nsoftware: megatron-lm\ncluster: {gpu: a100-sxm4-80gb, gpus: 1024, gpus_per_node: 8, "
      "intra: nvswitch, nics: 8, nic_gbps: 200, net: infiniband}\n"
      "train: {seq_len: 2048, global_batch: 1536, precision: fp16}\nplan: {tp: 8, pp: 16, micro_batch: 1}");
  CHECK(simulate_plainly(pipeline).step.simulated_ranks == 16);
}

TEST_CASE("the breakdown of every GPU adds up to the step time exactly") {
  for (const PlanKind& kind : plan_kinds()) {
    CAPTURE(kind.name);
    const CaseReport report = simulate_plainly(case_of_kind(kind));
    CHECK(report.breakdown.total() == report.step_time);
    for (const Breakdown& rank : report.per_class) CHECK(rank.total() == report.step_time);
    for (const Breakdown& rank : report.per_class) {
      for (const Time& part : rank.parts) CHECK(part >= Time::zero());
    }
  }
}
