#include "sim/engine/simulation.h"
#include "tests/engine/support.h"

using namespace foretrain;
using namespace foretrain::engine;
using test::add_task;

namespace {

std::vector<TaskId> deadlock(const TaskGraph& graph) {
  const auto result = simulate(graph);
  REQUIRE(std::holds_alternative<Deadlock>(result));
  return std::get<Deadlock>(result).tasks;
}

// Whether each task of the cycle waits for the next: depends on it or stands behind it on a stream.
bool is_wait_cycle(const TaskGraph& graph, const std::vector<TaskId>& cycle) {
  const auto waits_for = [&](TaskId waiting, TaskId awaited) {
    for (const auto& edge : graph.dependencies()) {
      if (edge.before == awaited && edge.after == waiting) return true;
    }
    for (const auto& front : graph.enqueued()) {
      bool behind = false;
      for (const auto& entry : graph.enqueued()) {
        if (entry.stream != front.stream) continue;
        if (behind && entry.task == waiting && front.task == awaited) return true;
        if (&entry == &front) behind = true;
      }
    }
    return false;
  };
  if (cycle.empty()) return false;
  for (std::size_t i = 0; i < cycle.size(); ++i) {
    if (!waits_for(cycle[i], cycle[(i + 1) % cycle.size()])) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("a cycle of dependencies is named") {
  TaskGraph graph;
  const auto cost = graph.add_cost(Time{1}, 0.0, 1.0, {});
  std::vector<TaskId> tasks;
  tasks.reserve(6);
  for (int i = 0; i < 6; ++i) tasks.push_back(graph.add_task(cost));
  graph.add_dependency(tasks[0], tasks[1]);  // 0 runs, 1 waits for the cycle 2 <- 3 <- 4, 5 waits for it too
  graph.add_dependency(tasks[3], tasks[1]);
  graph.add_dependency(tasks[2], tasks[3]);
  graph.add_dependency(tasks[3], tasks[4]);
  graph.add_dependency(tasks[4], tasks[2]);
  graph.add_dependency(tasks[4], tasks[5]);
  CHECK(deadlock(graph) == std::vector{tasks[2], tasks[4], tasks[3]});
}

TEST_CASE("two collectives entered in opposite orders are named") {
  TaskGraph graph;
  const auto cost = graph.add_cost(Time{1}, 0.0, 1.0, {});
  const auto a = graph.add_task(cost), b = graph.add_task(cost);
  const auto left = graph.add_stream(), right = graph.add_stream();
  graph.enqueue(left, a);
  graph.enqueue(left, b);
  graph.enqueue(right, b);
  graph.enqueue(right, a);
  const auto cycle = deadlock(graph);
  CHECK(cycle == std::vector{a, b});
  CHECK(is_wait_cycle(graph, cycle));
}

TEST_CASE("a task that waits for itself is named") {
  TaskGraph graph;
  const auto task = add_task(graph, Time{1}, 0.0, 1.0);
  graph.add_dependency(task, task);
  CHECK(deadlock(graph) == std::vector{task});

  TaskGraph twice;
  const auto stream = twice.add_stream();
  const auto doubled = add_task(twice, Time{1}, 0.0, 1.0);
  twice.enqueue(stream, doubled);
  twice.enqueue(stream, doubled);
  CHECK(deadlock(twice) == std::vector{doubled});
}

TEST_CASE("random graphs either run or name a true cycle") {
  test::Random random(21);
  int deadlocks = 0;
  for (int round = 0; round < 2000; ++round) {
    TaskGraph graph;
    const auto cost = graph.add_cost(Time{1}, 0.0, 1.0, {});
    const std::size_t tasks = 2 + random.below(20);
    for (std::size_t i = 0; i < tasks; ++i) graph.add_task(cost);
    for (int i = 0; i < 3; ++i) graph.add_stream();
    for (std::size_t i = 0; i < tasks; ++i) {
      const auto a = TaskId(random.below(tasks)), b = TaskId(random.below(tasks));
      if (random.chance(0.85)) {
        if (a != b) graph.add_dependency(std::min(a, b), std::max(a, b));
      } else if (random.chance(0.3)) {
        graph.add_dependency(a, b);
      } else {
        graph.enqueue(StreamId(random.below(3)), a);
      }
    }
    const auto result = simulate(graph);
    if (const auto* found = std::get_if<Deadlock>(&result)) {
      ++deadlocks;
      REQUIRE(is_wait_cycle(graph, found->tasks));
    } else {
      const auto& schedule = std::get<Schedule>(result);
      for (const auto& edge : graph.dependencies()) {
        REQUIRE(schedule.start[edge.after.index()] >= schedule.end[edge.before.index()]);
      }
    }
  }
  CHECK(deadlocks > 200);
  CHECK(deadlocks < 1800);
}
