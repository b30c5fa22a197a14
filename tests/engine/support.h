#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include "sim/engine/simulation.h"

namespace foretrain::engine::test {

// The rate of a task that only its resources limit.
inline constexpr double kNoCap = std::numeric_limits<double>::infinity();

// Seeded, the same on every machine.
class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  std::size_t below(std::size_t n) { return engine_() % n; }
  double uniform() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }
  bool chance(double p) { return uniform() < p; }
  // Log-uniform: every order of magnitude is as likely.
  double magnitude(double low, double high) { return low * std::pow(high / low, uniform()); }
  template <class T>
  void shuffle(std::vector<T>& values) {
    for (std::size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[below(i)]);
  }

 private:
  std::mt19937_64 engine_;
};

inline Schedule run(const TaskGraph& graph, const Options& options = {}) {
  auto result = simulate(graph, options);
  REQUIRE(std::holds_alternative<Schedule>(result));
  return std::get<Schedule>(std::move(result));
}

// A graph's tasks are made of one cost each here.
inline TaskId add_task(TaskGraph& graph, Time latency, double work, double rate_cap,
                       std::vector<ResourceUse> uses = {}) {
  return graph.add_task(graph.add_cost(latency, work, rate_cap, uses));
}

// Whether rates are max-min fair: feasible, and every task is at its cap or has a saturated resource on which no
// other task has a larger share (Bertsekas and Gallager, "Data Networks"). Needs no reference implementation.
inline bool is_max_min_fair(const TaskGraph& graph, std::span<const ActiveTask> active, double tolerance = 1e-9) {
  std::vector<double> load(graph.resource_count());
  std::vector<double> largest_share(graph.resource_count());
  const auto share = [&](const ActiveTask& task) {
    double largest_use = 0.0;
    for (const auto& use : graph.uses(graph.cost(graph.cost_of(task.task)))) {
      largest_use = std::max(largest_use, use.per_unit);
    }
    return task.rate * largest_use;
  };
  for (const ActiveTask& task : active) {
    for (const auto& use : graph.uses(graph.cost(graph.cost_of(task.task)))) {
      load[use.resource.index()] += use.per_unit * task.rate;
      double& largest = largest_share[use.resource.index()];
      largest = std::max(largest, share(task));
    }
  }
  for (std::size_t i = 0; i < load.size(); ++i) {
    if (load[i] > graph.capacity(ResourceId(i)) * (1.0 + tolerance)) return false;
  }
  return std::all_of(active.begin(), active.end(), [&](const ActiveTask& task) {
    const Cost& cost = graph.cost(graph.cost_of(task.task));
    if (!(task.rate > 0.0) || task.rate > cost.rate_cap * (1.0 + tolerance)) return false;
    if (task.rate >= cost.rate_cap * (1.0 - tolerance)) return true;
    const auto uses = graph.uses(cost);
    return std::any_of(uses.begin(), uses.end(), [&](const ResourceUse& use) {
      const std::size_t l = use.resource.index();
      return load[l] >= graph.capacity(use.resource) * (1.0 - tolerance) &&
             share(task) >= largest_share[l] * (1.0 - tolerance);
    });
  });
}

}  // namespace foretrain::engine::test
