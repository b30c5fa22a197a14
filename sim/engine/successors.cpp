#include "sim/engine/successors.h"

#include <algorithm>
#include <limits>
#include <stdexcept>

namespace foretrain::engine {
namespace {

// Calls visit(before, after) for every dependency and every pair of neighbours on a stream.
template <class Visit>
void for_each_edge(const TaskGraph& graph, Visit visit) {
  for (const TaskGraph::Edge& edge : graph.dependencies()) visit(edge.before, edge.after);
  std::vector<TaskId> last(graph.stream_count());
  for (const auto& [stream, task] : graph.enqueued()) {
    TaskId& previous = last[stream.index()];
    if (previous.valid()) visit(previous, task);
    previous = task;
  }
}

}  // namespace

Successors::Successors(const TaskGraph& graph) : first_(graph.task_count() + 1) {
  if (graph.dependencies().size() + graph.enqueued().size() > std::numeric_limits<std::uint32_t>::max()) {
    throw std::length_error("too many dependencies for 32-bit indices");
  }
  // Running totals mark where each task's part ends; filling the parts from behind moves the marks to their starts.
  std::vector<std::uint32_t>& next = first_;
  for_each_edge(graph, [&](TaskId before, TaskId) { ++next[before.index()]; });
  std::uint32_t total = 0;
  for (std::uint32_t& entry : next) total = entry += total;
  targets_.resize(total);
  for_each_edge(graph, [&](TaskId before, TaskId after) { targets_[--next[before.index()]] = after; });
  for (std::size_t task = 0; task < graph.task_count(); ++task) {
    std::sort(targets_.begin() + first_[task], targets_.begin() + first_[task + 1]);
  }
}

std::vector<std::uint32_t> Successors::predecessor_counts() const {
  std::vector<std::uint32_t> counts(first_.size() - 1);
  for (const TaskId target : targets_) ++counts[target.index()];
  return counts;
}

std::vector<TaskId> find_wait_cycle(const Successors& successors, std::span<const std::uint32_t> waiting) {
  // Every task that waits has a predecessor that waits, so following them must come round.
  std::vector<TaskId> waits_for(waiting.size());
  TaskId lowest;
  for (std::size_t i = waiting.size(); i-- > 0;) {
    if (waiting[i] == 0) continue;
    lowest = TaskId(i);
    for (const TaskId successor : successors.of(lowest)) waits_for[successor.index()] = lowest;
  }
  std::vector<bool> seen(waiting.size());
  TaskId task = lowest;
  while (!seen[task.index()]) {
    seen[task.index()] = true;
    task = waits_for[task.index()];
  }
  std::vector<TaskId> cycle;
  for (const TaskId first = task; cycle.empty() || task != first; task = waits_for[task.index()]) {
    cycle.push_back(task);
  }
  std::rotate(cycle.begin(), std::min_element(cycle.begin(), cycle.end()), cycle.end());
  return cycle;
}

}  // namespace foretrain::engine
