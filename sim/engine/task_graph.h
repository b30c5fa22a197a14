#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/base/ids.h"
#include "sim/base/time.h"

namespace foretrain::engine {

using TaskId = Id<struct TaskTag>;
using StreamId = Id<struct StreamTag>;
using ResourceId = Id<struct ResourceTag>;
using CostId = Id<struct CostTag>;

// One unit of a task's work takes `per_unit` units of the resource.
struct ResourceUse {
  ResourceId resource;
  double per_unit = 0.0;
};

// What a task costs. Many tasks share one cost, so that the table of costs is small and tasks are light.
//
// A task first waits `latency` (loading nothing), then does `work` at a rate that is at most `rate_cap`
// work units per second and is cut further where its resources are shared. A task with no resources simply
// lasts latency + work / rate_cap. The unit of work is the caller's: bytes for a transfer, seconds for a kernel.
struct Cost {
  Time latency;
  double work = 0.0;      // >= 0; 0 is a synchronisation point that takes `latency`
  double rate_cap = 1.0;  // > 0, may be infinite if some resource bounds the rate
  // How tasks that meet on a resource are compared: equal shares are fair, share = rate * share_per_unit (see
  // FairShareSolver).
  double share_per_unit = 0.0;
  std::uint32_t first_use = 0;
  std::uint32_t use_count = 0;
};

// The tasks of one simulated step: what each costs, which streams it occupies and what it waits for.
//
// A stream is a queue in issue order (a CUDA stream, a copy engine): a task starts when it heads every stream
// it was enqueued on and all tasks it depends on have ended. A collective is one task enqueued on a stream of
// every member: it starts when the last member arrives. A task on no stream starts when its dependencies end.
class TaskGraph {
 public:
  // `capacity` in resource units per second, > 0 and finite. This and the functions below throw
  // std::invalid_argument for a value or id out of range: a fault of the program, never of its input.
  ResourceId add_resource(double capacity);
  StreamId add_stream();
  // Uses of the same resource are added up; a use of 0 is dropped. Uses are kept in order of resource.
  // `share_per_unit` > 0 weighs a unit of this work against others' (for a transfer of which each flow sends a byte a
  // unit: 1); without it the largest of its uses does.
  CostId add_cost(Time latency, double work, double rate_cap, std::span<const ResourceUse> uses,
                  double share_per_unit = 0.0);
  TaskId add_task(CostId cost);
  // Puts a task at the end of a stream's issue order. A task that is put twice on one stream waits for itself.
  void enqueue(StreamId stream, TaskId task);
  // `after` may not start before `before` has ended.
  void add_dependency(TaskId before, TaskId after);

  std::size_t task_count() const { return task_cost_.size(); }
  std::size_t stream_count() const { return streams_; }
  std::size_t resource_count() const { return capacities_.size(); }
  std::size_t cost_count() const { return costs_.size(); }
  const Cost& cost(CostId id) const { return costs_[id.index()]; }
  CostId cost_of(TaskId task) const { return task_cost_[task.index()]; }
  std::span<const ResourceUse> uses(const Cost& cost) const {
    return std::span(uses_).subspan(cost.first_use, cost.use_count);
  }
  double capacity(ResourceId id) const { return capacities_[id.index()]; }

  struct Edge {
    TaskId before, after;
  };
  struct Enqueued {
    StreamId stream;
    TaskId task;
  };
  std::span<const Edge> dependencies() const { return edges_; }
  std::span<const Enqueued> enqueued() const { return enqueued_; }

 private:
  std::vector<double> capacities_;
  std::vector<Cost> costs_;
  std::vector<ResourceUse> uses_;
  std::vector<CostId> task_cost_;
  std::vector<Edge> edges_;
  std::vector<Enqueued> enqueued_;
  std::size_t streams_ = 0;
};

}  // namespace foretrain::engine
