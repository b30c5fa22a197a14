#pragma once

#include <limits>
#include <vector>

#include "tests/engine/support.h"

namespace foretrain::engine::test {

// The parts of a random task graph without a cycle, kept apart so that it can be built in several ways.
struct RandomGraph {
  struct Task {
    Time latency;
    double work;
    double cap;
    std::vector<ResourceUse> uses;
    std::vector<std::size_t> streams;
  };
  std::vector<double> capacities;
  std::size_t streams;
  std::vector<Task> tasks;
  std::vector<std::pair<std::size_t, std::size_t>> dependencies;

  RandomGraph(Random& random, std::size_t task_count) : streams(1 + random.below(6)) {
    for (std::size_t i = 0; i < 1 + random.below(8); ++i) capacities.push_back(random.magnitude(1e8, 1e12));
    for (std::size_t i = 0; i < task_count; ++i) {
      Task task;
      if (random.chance(0.7)) task.latency = Time{static_cast<std::int64_t>(random.below(20'000'000))};
      task.work = random.chance(0.15) ? 0.0 : random.magnitude(1e3, 1e9);
      const bool capped = random.chance(0.4);
      task.cap = capped ? random.magnitude(1e7, 1e12) : std::numeric_limits<double>::infinity();
      for (std::size_t k = 0; k < (capped ? 0U : 1U) + random.below(4); ++k) {
        task.uses.push_back({ResourceId(random.below(capacities.size())), random.chance(0.7) ? 1.0 : random.uniform()});
      }
      for (std::size_t stream = 0; stream < streams; ++stream) {
        if (random.chance(0.3)) task.streams.push_back(stream);
      }
      for (std::size_t k = 0; i > 0 && k < random.below(3); ++k) dependencies.emplace_back(random.below(i), i);
      tasks.push_back(std::move(task));
    }
  }

  TaskGraph build(double rate_scale = 1.0) const {
    TaskGraph graph;
    for (const double capacity : capacities) graph.add_resource(capacity * rate_scale);
    for (std::size_t i = 0; i < streams; ++i) graph.add_stream();
    for (const Task& task : tasks) {
      const auto id = add_task(graph, task.latency, task.work, task.cap * rate_scale, task.uses);
      for (const std::size_t stream : task.streams) graph.enqueue(StreamId(stream), id);
    }
    for (const auto& [before, after] : dependencies) graph.add_dependency(TaskId(before), TaskId(after));
    return graph;
  }
};

}  // namespace foretrain::engine::test
