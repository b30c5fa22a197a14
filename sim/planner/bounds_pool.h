#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "sim/planner/bounds.h"

namespace foretrain {

// Bounds of one case for any number of threads: each borrows what no other holds. What they say does not depend on
// which it gets.
class BoundsPool {
 public:
  // As of PlanBounds.
  BoundsPool(const Case& subject, const Cluster& cluster, const CollectiveConstants& constants, const HostRates& hosts)
      : case_(subject), cluster_(cluster), constants_(constants), hosts_(hosts) {}

  // Given back when it is destroyed.
  using Borrowed = std::unique_ptr<PlanBounds, std::function<void(PlanBounds*)>>;
  Borrowed borrow() {
    return {take().release(), [this](PlanBounds* bounds) { give_back(std::unique_ptr<PlanBounds>(bounds)); }};
  }

 private:
  std::unique_ptr<PlanBounds> take() {
    const std::lock_guard one_at_a_time(mutex_);
    if (idle_.empty()) return std::make_unique<PlanBounds>(case_, cluster_, constants_, hosts_);
    std::unique_ptr<PlanBounds> bounds = std::move(idle_.back());
    idle_.pop_back();
    return bounds;
  }
  void give_back(std::unique_ptr<PlanBounds> bounds) {
    const std::lock_guard one_at_a_time(mutex_);
    idle_.push_back(std::move(bounds));
  }

  const Case& case_;
  const Cluster& cluster_;
  const CollectiveConstants& constants_;
  const HostRates& hosts_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<PlanBounds>> idle_;
};

}  // namespace foretrain
