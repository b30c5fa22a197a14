#pragma once

#include <memory>

#include "sim/cost/collective.h"
#include "sim/scenario/scenario.h"
#include "sim/workload/known_layer_costs.h"

namespace foretrain {

// The case's plan with what it leaves to be dealt out (Plan::to_balance) in proportion to the speeds of the GPUs, so
// that the slowest is through as early as whole layers and sequences allow:
//
// layers of every pipeline stage: the longest time of a stage for one micro-batch, with the embedding and the head on
// the stages that hold them, is the least;
// shares of data-parallel ranks: the time at which the last one is through with its own is the least. They differ in
// the number of micro-batches, or in their size where all ranks need the same number (meets_every_micro_batch()).
//
// A GPU's speed is what the passes of the plan's blocks take on it when nothing disturbs them, with what a tensor- or
// context-parallel group exchanges inside them.
Plan balanced_plan(const Case& subject, const Cluster& cluster, const CollectiveConstants& constants);

// The same for plans of one job that follow each other: what those that place their ranks alike have in common is kept.
// Not to be used by two threads at once. The references must outlive it.
class Balancer {
 public:
  Balancer(const Cluster& cluster, const CollectiveConstants& constants);
  ~Balancer();
  Plan balanced(const Case& subject);

  class Places;

 private:
  const Cluster& cluster_;
  const CollectiveConstants& constants_;
  std::unique_ptr<Places> places_;
  KnownLayerCosts costs_;
};

}  // namespace foretrain
