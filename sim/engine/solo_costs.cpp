#include "sim/engine/solo_costs.h"

#include <algorithm>

namespace foretrain::engine {

SoloCosts::SoloCosts(const TaskGraph& graph) {
  costs_.reserve(graph.cost_count());
  for (std::size_t i = 0; i < graph.cost_count(); ++i) {
    const Cost& cost = graph.cost(CostId(i));
    SoloCost solo{.rate = cost.rate_cap, .bound = {}, .share_per_unit = cost.share_per_unit};
    for (const ResourceUse& use : graph.uses(cost)) {
      const double rate = graph.capacity(use.resource) / use.per_unit;
      if (rate < solo.rate) solo = {rate, use.resource, solo.share_per_unit};
    }
    costs_.push_back(solo);
    for (const ResourceUse& use : graph.uses(cost)) {
      const double part = std::min(1.0, solo.rate * (use.per_unit / graph.capacity(use.resource)));
      demands_.push_back(static_cast<std::int64_t>(part * static_cast<double>(kFullDemand)));
    }
  }
}

}  // namespace foretrain::engine
