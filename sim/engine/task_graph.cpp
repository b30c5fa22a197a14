#include "sim/engine/task_graph.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

namespace foretrain::engine {
namespace {

void require(bool condition, const char* what) {
  if (!condition) throw std::invalid_argument(what);
}

// The next id of a table, which must leave room for the invalid id.
template <class TypedId>
TypedId next_id(std::size_t size) {
  require(size < TypedId::kInvalid, "too many entries for a 32-bit id");
  return TypedId(size);
}

}  // namespace

ResourceId TaskGraph::add_resource(double capacity) {
  require(capacity > 0.0 && std::isfinite(capacity), "a capacity must be positive and finite");
  const auto id = next_id<ResourceId>(capacities_.size());
  capacities_.push_back(capacity);
  return id;
}

StreamId TaskGraph::add_stream() { return next_id<StreamId>(streams_++); }

CostId TaskGraph::add_cost(Time latency, double work, double rate_cap, std::span<const ResourceUse> uses,
                           double share_per_unit) {
  require(latency >= Time::zero(), "a latency must not be negative");
  require(work >= 0.0 && std::isfinite(work), "work must be finite and not negative");
  require(rate_cap > 0.0, "a rate cap must be positive");
  require(share_per_unit >= 0.0 && std::isfinite(share_per_unit), "a share must be finite and not negative");
  for (const ResourceUse& use : uses) {
    require(use.resource.index() < capacities_.size(), "a cost uses an unknown resource");
    require(use.per_unit >= 0.0 && std::isfinite(use.per_unit), "a use must be finite and not negative");
  }
  const auto id = next_id<CostId>(costs_.size());
  const std::size_t first = uses_.size();
  for (const ResourceUse& use : uses) {
    if (use.per_unit > 0.0) uses_.push_back(use);
  }
  const auto begin = uses_.begin() + static_cast<std::ptrdiff_t>(first);
  // Also by amount, so that sums do not depend on the order in which the uses were given.
  std::sort(begin, uses_.end(), [](const ResourceUse& a, const ResourceUse& b) {
    return std::pair(a.resource, a.per_unit) < std::pair(b.resource, b.per_unit);
  });
  std::size_t last = first;
  for (std::size_t i = first; i < uses_.size(); ++i) {
    if (i == first || uses_[i].resource != uses_[last].resource) {
      last += i == first ? 0 : 1;
      uses_[last] = uses_[i];
    } else {
      uses_[last].per_unit += uses_[i].per_unit;
    }
  }
  uses_.resize(uses_.size() == first ? first : last + 1);

  double fastest = rate_cap;
  double largest_use = 0.0;
  for (const ResourceUse& use : std::span(uses_).subspan(first)) {
    largest_use = std::max(largest_use, use.per_unit);
    fastest = std::min(fastest, capacities_[use.resource.index()] / use.per_unit);
  }
  const bool possible = work == 0.0 || (fastest > 0.0 && std::isfinite(fastest));
  if (!possible) uses_.resize(first);
  require(possible, "work needs a rate cap or a resource that bounds its rate");
  require(uses_.size() <= Id<void>::kInvalid, "too many resource uses for 32-bit indices");

  costs_.push_back({.latency = latency,
                    .work = work,
                    .rate_cap = rate_cap,
                    .share_per_unit = share_per_unit > 0.0 ? share_per_unit : largest_use,
                    .first_use = static_cast<std::uint32_t>(first),
                    .use_count = static_cast<std::uint32_t>(uses_.size() - first)});
  return id;
}

TaskId TaskGraph::add_task(CostId cost) {
  require(cost.index() < costs_.size(), "a task has an unknown cost");
  const auto id = next_id<TaskId>(task_cost_.size());
  task_cost_.push_back(cost);
  return id;
}

void TaskGraph::enqueue(StreamId stream, TaskId task) {
  require(stream.index() < streams_, "unknown stream");
  require(task.index() < task_cost_.size(), "unknown task on a stream");
  enqueued_.push_back({stream, task});
}

void TaskGraph::add_dependency(TaskId before, TaskId after) {
  require(before.index() < task_cost_.size() && after.index() < task_cost_.size(), "unknown task in a dependency");
  edges_.push_back({before, after});
}

}  // namespace foretrain::engine
