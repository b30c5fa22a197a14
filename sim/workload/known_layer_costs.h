#pragma once

#include <map>
#include <memory>
#include <tuple>

#include "sim/workload/layer_cost.h"

namespace foretrain {

// Costs of the layers of plans of one job that follow each other: made once for all that do not differ in what costs
// hang on. Of what they hang on, the plans of a search differ in nothing that is not looked at here.
class KnownLayerCosts {
 public:
  // `alike`: the job with the plan, as if all its GPUs were of kind `gpu`. What is given holds until forget_if_many().
  const LayerCosts& of(const Case& alike, int gpu) {
    const Plan& plan = alike.plan;
    const Key key{gpu,
                  plan.tp,
                  plan.cp,
                  plan.ep,
                  plan.etp,
                  plan.micro_batch,
                  plan.sequence_parallel,
                  plan.recompute.mode,
                  plan.zero,
                  plan.context};
    std::unique_ptr<LayerCosts>& known = known_[key];
    if (!known) known = std::make_unique<LayerCosts>(alike);
    return *known;
  }
  // Plans come sorted: what was long ago does not come back.
  void forget_if_many() {
    constexpr std::size_t kMost = 1000;
    if (known_.size() > kMost) known_.clear();
  }

 private:
  using Key = std::tuple<int, int, int, int, int, std::int64_t, bool, Recompute::Mode, int, ContextParallel>;
  std::map<Key, std::unique_ptr<LayerCosts>> known_;
};

}  // namespace foretrain
