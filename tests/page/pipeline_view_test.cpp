#include "sim/page/pipeline_view.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "tests/support/cases.h"

using namespace foretrain;
using namespace foretrain::page;
using foretrain::testing::case_of;
using foretrain::testing::environment;

namespace {

struct Pictured {
  CaseReport report;
  PipelineView view;
};

Pictured pictured(const std::string& plan, const PipelineLimits& limits = {}, int batch = 16) {
  Pictured p;
  p.report =
      foretrain::testing::simulate_plainly(case_of("model: gpt-3-6.7b\n"
                                                   "train: {seq_len: 2048, global_batch: " +
                                                   std::to_string(batch) +
                                                   ", precision: bf16, optimizer: adamw, attention: flash2}\n"
                                                   "software: megatron-core\n"
                                                   "cluster: {node: dgx-a100-80g}\n"
                                                   "plan: " +
                                                   plan + "\n"));
  const Cluster cluster(p.report.subject.cluster, environment().link_rates);
  const Communicators communicators(p.report.subject, cluster, environment().collectives,
                                    Communicators::Folding::symmetric, environment().hosts);
  p.view = pipeline_view(p.report.step, p.report.schedule, communicators, limits);
  return p;
}

bool shows_pass(const PipelineView::Slice& slice) { return slice.activity <= Activity::weight_gradient; }

}  // namespace

TEST_CASE("a stage runs every pass of every micro-batch once, one after the other") {
  const struct {
    const char* plan;
    int chunks, passes;  // a micro-batch and chunk
  } plans[] = {{"{tp: 2, pp: 4, schedule: 1f1b, micro_batch: 1}", 1, 2},
               {"{tp: 2, pp: 4, schedule: gpipe, micro_batch: 1, recompute: full}", 1, 2},
               {"{tp: 2, pp: 4, schedule: interleaved, vpp: 4, micro_batch: 1}", 4, 2},
               {"{tp: 2, pp: 4, schedule: zero-bubble, micro_batch: 1}", 1, 3},
               {"{zero: 3, micro_batch: 1}", 1, 2}};
  for (const auto& plan : plans) {
    CAPTURE(plan.plan);
    const auto [report, view] = pictured(plan.plan);
    CHECK(view.stages.size() == static_cast<std::size_t>(report.subject.plan.pp));
    CHECK(view.end == report.schedule.makespan);
    for (const PipelineView::Stage& stage : view.stages) {
      CHECK(stage.passes == static_cast<std::size_t>(report.step.micro_batches * plan.chunks * plan.passes));
      CHECK(std::count_if(stage.compute.begin(), stage.compute.end(), shows_pass) ==
            static_cast<std::ptrdiff_t>(stage.passes));
      Time sum, last;
      for (const PipelineView::Slice& slice : stage.compute) {
        CHECK(slice.begin >= last);
        CHECK(slice.end > slice.begin);
        last = slice.end;
        sum += slice.end - slice.begin;
      }
      CHECK(last <= view.end);
      Time by_kind;
      for (const Time time : stage.time) by_kind += time;
      CHECK(by_kind == sum);
    }
  }
}

TEST_CASE("what runs beside the passes is there, without overlaps of a kind") {
  const auto [report, view] = pictured("{zero: 3, micro_batch: 1}");
  const auto& beside = view.stages.front().beside;
  REQUIRE(!beside.empty());
  for (std::size_t i = 1; i < beside.size(); ++i) {
    if (beside[i].activity == beside[i - 1].activity) CHECK(beside[i].begin > beside[i - 1].end);
  }
  // ZeRO-3 gathers weights in every pass: the traffic is spread over the whole step.
  CHECK(beside.front().begin < Time{view.end.ps / 10});
  CHECK(beside.back().end > Time{view.end.ps / 2});
}

TEST_CASE("a long step keeps its beginning and its end, and nothing is lost from the count") {
  const char* plan = "{tp: 2, pp: 4, schedule: 1f1b, micro_batch: 1}";
  const auto whole = pictured(plan, {}, 64).view;
  const auto thinned = pictured(plan, {.slices = 160}, 64).view;
  for (std::size_t s = 0; s < whole.stages.size(); ++s) {
    const auto& all = whole.stages[s].compute;
    const auto& shown = thinned.stages[s].compute;
    CHECK(shown.size() == 30);
    std::size_t stands_for = 0;
    for (const PipelineView::Slice& slice : shown) stands_for += slice.stands_for;
    CHECK(stands_for == all.size());
    CHECK(shown.front().end == all.front().end);
    CHECK(shown.back().begin == all.back().begin);
    CHECK(std::count_if(shown.begin(), shown.end(),
                        [](const auto& slice) { return slice.activity == Activity::left_out; }) == 1);
    CHECK(whole.stages[s].time == thinned.stages[s].time);  // totals are of the whole step
  }
}

TEST_CASE("of many stages the first, the last and some between are shown") {
  const auto view = pictured("{pp: 8, micro_batch: 1}", {.stages = 3}).view;
  CHECK(view.all_stages == 8);
  REQUIRE(view.stages.size() == 3);
  CHECK(view.stages[0].stage == 0);
  CHECK(view.stages[1].stage == 3);
  CHECK(view.stages[2].stage == 7);
}
