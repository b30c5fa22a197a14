#pragma once

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "sim/cost/collective.h"

namespace foretrain {

// Loads that a collective puts on links, in the order they come up; one entry a link only after `sum`.
class SummedLoads {
 public:
  // `weight` bytes over each hop of a route, for every byte of the collective's unit.
  void add(std::span<const Hop> hops, double weight) {
    for (const Hop& hop : hops) loads_.push_back({hop.link, weight * hop.bytes_per_byte});
  }

  // One entry a link, ascending.
  std::vector<LinkLoad> sum() && {
    // Stable, so that equal links are summed in the order they came up and the digits do not depend on the sort.
    std::stable_sort(loads_.begin(), loads_.end(),
                     [](const LinkLoad& a, const LinkLoad& b) { return a.link < b.link; });
    std::size_t kept = 0;
    for (const LinkLoad& load : loads_) {
      if (kept > 0 && loads_[kept - 1].link == load.link)
        loads_[kept - 1].bytes_per_unit += load.bytes_per_unit;
      else
        loads_[kept++] = load;
    }
    loads_.resize(kept);
    return std::move(loads_);
  }

 private:
  std::vector<LinkLoad> loads_;
};

}  // namespace foretrain
