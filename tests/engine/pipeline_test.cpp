#include "tests/engine/pipelines.h"
#include "tests/engine/support.h"

using namespace foretrain;
using namespace foretrain::engine;
using test::make_pipeline;
using test::PipelineSchedule;
using test::run;

TEST_CASE("GPipe and 1F1B take (m + p - 1)(f + b) exactly") {
  const Time forward{1'234'567'891}, backward{2'345'678'917};
  for (const auto kind : {PipelineSchedule::gpipe, PipelineSchedule::one_forward_one_backward}) {
    for (const std::size_t stages : {1U, 2U, 4U, 16U}) {
      for (const std::size_t micro_batches : {1U, 3U, 16U, 64U}) {
        const Schedule schedule = run(make_pipeline(kind, stages, micro_batches, forward, backward));
        const auto slots = static_cast<std::int64_t>(micro_batches + stages - 1);
        CHECK(schedule.makespan == slots * (forward + backward));
        CHECK(schedule.rate_solves == 0);
      }
    }
  }
}

TEST_CASE("following released_by from the last task explains the whole step") {
  const TaskGraph graph =
      make_pipeline(PipelineSchedule::one_forward_one_backward, 8, 24, Time{1'000'003}, Time{2'000'011}, 1e5);
  const Schedule schedule = run(graph);
  auto last =
      static_cast<std::size_t>(std::max_element(schedule.end.begin(), schedule.end.end()) - schedule.end.begin());
  Time explained;
  for (TaskId task(last); task.valid(); task = schedule.released_by[task.index()]) {
    explained += schedule.end[task.index()] - schedule.start[task.index()];
    const TaskId before = schedule.released_by[task.index()];
    REQUIRE(schedule.start[task.index()] == (before.valid() ? schedule.end[before.index()] : Time::zero()));
  }
  CHECK(explained == schedule.makespan);
}
