#pragma once

#include <vector>

#include "sim/engine/quaternary_heap.h"
#include "sim/engine/task_graph.h"

namespace foretrain::engine {

// What work of one cost does when nothing runs beside it. No rate can ever be higher.
struct SoloCost {
  double rate = 0.0;            // min(rate_cap, capacity / per_unit over its resources), work units per second
  ResourceId bound;             // the resource that gives that minimum, or invalid if the rate cap does
  double share_per_unit = 0.0;  // share = rate * share_per_unit
};

// A part of a resource's capacity in units of 2^-62, so that sums are exact and in no order.
using Demand = __int128_t;
inline constexpr std::int64_t kFullDemand = std::int64_t{1} << 62;

// The relative difference below which two fill levels, or a demand and a capacity, count as equal.
inline constexpr double kLevelTolerance = 1e-12;

// Whether tasks that would load a resource with `demand`, were each alone, may have to share it.
// If not, the resource can bound nobody's rate and does not tie its users together.
constexpr bool binds(Demand demand) {
  constexpr auto kSlack = static_cast<std::int64_t>(static_cast<double>(kFullDemand) * kLevelTolerance);
  return demand > Demand{kFullDemand} + kSlack;
}

// The table for all costs of a graph, which must be complete.
class SoloCosts {
 public:
  explicit SoloCosts(const TaskGraph& graph);

  const SoloCost& operator[](CostId cost) const { return costs_[cost.index()]; }
  // The part of each used resource's capacity that a lone task of this cost loads; parallel to graph.uses(cost).
  std::span<const std::int64_t> demands(const Cost& cost) const {
    return std::span(demands_).subspan(cost.first_use, cost.use_count);
  }

 private:
  std::vector<SoloCost> costs_;
  std::vector<std::int64_t> demands_;
};

}  // namespace foretrain::engine
