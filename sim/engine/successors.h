#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/engine/task_graph.h"

namespace foretrain::engine {

// Who waits for whom, frozen into flat arrays: an edge for every dependency, and one from each task of a stream
// to the next, since a stream's head leaves it by ending. Each task's successors are in order of id, so that
// nothing depends on the order in which the edges were added.
class Successors {
 public:
  explicit Successors(const TaskGraph& graph);

  std::span<const TaskId> of(TaskId task) const {
    return std::span(targets_).subspan(first_[task.index()], first_[task.index() + 1] - first_[task.index()]);
  }

  // By task: the number of edges that lead to it.
  std::vector<std::uint32_t> predecessor_counts() const;

 private:
  std::vector<std::uint32_t> first_;
  std::vector<TaskId> targets_;
};

// One cycle of the wait-for relation among the tasks that still wait (waiting[task] > 0) after everything that
// could run has run: each task waits for the next, the last for the first. It starts with its lowest id; several
// cycles are told apart by following the lowest ids. At least one task must wait.
std::vector<TaskId> find_wait_cycle(const Successors& successors, std::span<const std::uint32_t> waiting);

}  // namespace foretrain::engine
