#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "sim/cost/collective.h"
#include "sim/planner/choice.h"
#include "sim/scenario/scenario.h"
#include "sim/workload/balance.h"

namespace foretrain {

// The plans that a search looks at: every degree of parallelism that divides the GPUs, chunks that divide a stage's
// layers, micro-batches that divide a replica's batch, ZeRO over all data-parallel ranks or those of a node, recompute
// of nothing, attention cores or everything, and states and activations in host memory; of those what the framework
// offers (Software::Offers), unless it is fixed. Where the GPUs of stages, or of data-parallel ranks, are unlike: the
// layers, or the batch, evenly and by speed. What is legal is for resolve_plan() to say.
//
// A plan that does not fit gives way to one that spends more time and needs less memory: so few layers as must be are
// recomputed, states go from host memory to drives. They count as one plan.
class PlanSpace {
 public:
  // `subject`: as_simulated(); its `open_plan` is what is fixed. The references must outlive the space.
  PlanSpace(const Case& subject, const Cluster& cluster, const CollectiveConstants& constants);

  // Plans whose ranks lie alike; each of them legal by itself, as far as that can be said without its other values.
  // Families of the same tensor and context parallelism follow each other.
  std::size_t families() const { return families_.size(); }
  bool continues(std::size_t family) const {  // the same as in the family before
    return family > 0 && family < families_.size() && families_[family].tp == families_[family - 1].tp &&
           families_[family].cp == families_[family - 1].cp;
  }
  // Calls visit(choice, plan) for every legal plan of a family, each distinct plan once. `balancer`: of this space's
  // cluster, for families that follow each other.
  using Visit = std::function<void(const PlanChoice&, const Plan&)>;
  void for_each(std::size_t family, Balancer& balancer, const Visit& visit) const;
  std::optional<Plan> plan_of(const PlanChoice& choice) const;
  // A plan without recompute, with the first layers of every chunk recomputed instead: as many as `level` says, 0 of
  // none. The levels there are: 1 to what this says of the plan, 0 where its framework recomputes all layers or none.
  std::int64_t recompute_levels(const PlanChoice& choice, const Plan& plan) const;
  static PlanChoice at_recompute_level(const PlanChoice& choice, const Plan& plan, std::int64_t level);
  // With more of what is in host memory on drives; nullopt if there is no more.
  std::optional<PlanChoice> with_more_on_drives(const PlanChoice& choice) const;
  // What resolve_plan() said of the first family if no family is legal.
  const Diagnostics& refusal() const { return refusal_; }

 private:
  void add_family(const PlanChoice& choice);
  PlanRequest request_for(const PlanChoice& choice) const;
  // Whether the stages, or the data-parallel ranks, of a family have unlike GPUs that are not dealt out otherwise.
  struct Unlike {
    bool stages = false, data_ranks = false;
  };
  Unlike unlike(const PlanChoice& family) const;
  // Balanced plans of a family, by what layers and shares hang on.
  struct Balances {
    Balancer& balancer;
    std::map<std::tuple<std::int64_t, Recompute::Mode, std::int64_t, bool, int, bool, bool>, Plan> known;
  };
  std::optional<Plan> plan_of(const PlanChoice& choice, Balances& balances) const;
  std::vector<std::int64_t> micro_batches(std::int64_t data_ranks, bool by_speed) const;
  std::vector<Recompute> recomputes() const;
  std::vector<std::int64_t> zero_stages() const;
  // States in host memory, and whether activations are there too.
  std::vector<std::pair<PlanChoice::States, bool>> places() const;
  bool moves_activations(const PlanChoice& choice) const;

  const Case& case_;
  const Cluster& cluster_;
  const CollectiveConstants& constants_;
  PlanRequest fixed_;
  std::vector<PlanChoice> families_;
  Diagnostics refusal_;
};

}  // namespace foretrain
