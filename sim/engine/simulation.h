#pragma once

#include <functional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "sim/engine/task_graph.h"

namespace foretrain::engine {

// When every task ran.
struct Schedule {
  std::vector<Time> start;  // per task: its latency begins
  std::vector<Time> end;
  // The task whose end let this one start (a dependency, or the task before it on a stream): the last of those it
  // waited for to end; ties go to the lowest task id. Invalid if it started at time zero. Following it from the
  // last task to end gives the critical path: each task on it starts the instant its `released_by` ends.
  std::vector<TaskId> released_by;
  // The resource that bound the task's rate for most of its work, or invalid if its own rate cap did. If none
  // bound it for more than half of its work, one of those that did.
  std::vector<ResourceId> bound_by;
  Time makespan;
  std::uint64_t fingerprint = 0;  // 64-bit hash over (time, kind, task) of all events in order
  std::uint64_t events = 0;
  std::uint64_t rate_solves = 0;  // of groups of tasks that bind each other; a task alone needs none
};

// Nothing can ever start again although tasks are left: a dependency cycle, or members that enter two
// collectives in different orders. `tasks` is one cycle of the wait-for relation, each waiting for the next.
struct Deadlock {
  std::vector<TaskId> tasks;
};

// A task that is doing work, as seen by an observer after rates were solved.
struct ActiveTask {
  TaskId task;
  double rate = 0.0;  // work units per second
};

// The simulation was given up at Options::until.
struct Late {};

struct Options {
  // Called at every instant with an event, after rates were solved, with all tasks in their work phase in order of
  // id; tests check the fair-share certificate here.
  std::function<void(Time now, std::span<const ActiveTask>)> observer = {};
  // Of something that happens later nothing more is wanted: the answer is Late then.
  Time until = Time::max();
};

// Runs the graph. Deterministic: the result depends on what the tasks are, not on the order in which equal-time
// events were pushed. Allocates nothing per event: memory grows to the most tasks that are ever at work at once.
//
// Time: a latency is exact; a work phase ends at the first whole picosecond at which the work is done, at least one
// after it began. Work whose rate never changes lasts its work / rate, rounded once, whenever it starts.
// Throws std::overflow_error if the simulated time would pass 2^62 ps (53 days).
std::variant<Schedule, Deadlock, Late> simulate(const TaskGraph& graph, const Options& options = {});

}  // namespace foretrain::engine
