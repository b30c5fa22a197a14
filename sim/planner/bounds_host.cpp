// What the host does for the GPUs: copies beside the passes, and the optimizer's update after them.

#include <algorithm>
#include <map>

#include "sim/memory/ledger.h"
#include "sim/planner/bounds.h"
#include "sim/workload/communicators.h"
#include "sim/workload/optimizer_cost.h"

namespace foretrain {

void PlanBounds::enter_host_work() {
  host_ = host_work(case_, cluster_, hosts_);
  least_host_amounts_ = {};
  if (!case_.plan.shares.empty()) return;  // what others do is not known
  least_host_amounts_ = host_amounts(0);
  for (int stage = 1; stage < case_.plan.pp; ++stage) {
    const HostAmounts here = host_amounts(stage);
    least_host_amounts_.out = std::min(least_host_amounts_.out, here.out);
    least_host_amounts_.back = std::min(least_host_amounts_.back, here.back);
    least_host_amounts_.updated = std::min(least_host_amounts_.updated, here.updated);
  }
}

// Activations leave in every forward pass and come back for the backward pass, but for the very last layer's; weights
// on the host come for both. Gradients, and weights that the host has updated, are left out.
PlanBounds::HostAmounts PlanBounds::host_amounts(int stage) {
  const Offload& offload = case_.plan.offload;
  const StageLayout& layout = layouts_[static_cast<std::size_t>(stage)];
  HostAmounts amounts;
  double leaving = 0, fetched = 0, last = 0;
  for (const Chunk& chunk : layout.chunks) {
    for (const Block& block : chunk.blocks) {
      if (offload.params != Offload::Place::gpu && !case_.plan.zeropp.secondary) {
        fetched += case_.software.offload.whole_blocks ? whole_offloaded_weight_bytes(case_, block)
                                                       : offloaded_weight_bytes(case_, block);
      }
      if (offload.of_activations() <= 0 || block.kind != Block::Kind::layer) continue;
      last = offloaded_activations_of_layer(case_, block.recomputed, block.layer).value;
      leaving += last;
    }
  }
  if (stage == case_.plan.pp - 1) leaving -= last;
  const auto passes = static_cast<double>(micro_batches(case_.plan, case_.train));
  amounts.out = passes * leaving;
  amounts.back = passes * (leaving + 2 * fetched);
  const bool updates = offload.optimizer != Offload::Place::gpu &&
                       case_.software.offload.adam != Software::Offload::Adam::gpu && !offload.delayed_update;
  if (updates) amounts.updated = sharded_parameters(layout, case_.plan) * offload.of_optimizer();
  return amounts;
}

// By itself, and with the other ranks of the node, each of which has the host do as much as `others` says or more.
Time PlanBounds::host_time(Purpose purpose, double own, double others, int rank) const {
  if (own <= 0) return {};
  const int per_node = std::min(case_.cluster.gpus, case_.cluster.gpus_per_node), first = rank / per_node * per_node;
  double most = host_units(purpose, own, host_) / host_rate(purpose, host_);
  std::map<LinkId, double> carried;
  for (int other = first; other < first + per_node; ++other) {
    const double units = host_units(purpose, other == rank ? own : others, host_);
    for (const LinkLoad& load : host_loads(purpose, other, cluster_, host_)) {
      carried[load.link] += units * load.bytes_per_unit;
    }
  }
  for (const auto& [link, bytes] : carried) most = std::max(most, bytes / cluster_.link(link).rate.value);
  return to_time({most});
}

PlanBounds::HostTimes PlanBounds::host_times(int stage) {
  if (!case_.plan.offload.any()) return {};
  const HostAmounts own = host_amounts(stage);
  const int rank = rank_at(stage);
  const Time out = host_time(Purpose::to_host, own.out, least_host_amounts_.out, rank);
  const Time back = host_time(Purpose::from_host, own.back, least_host_amounts_.back, rank);
  return {std::max(out, back), host_time(Purpose::host_work, own.updated, least_host_amounts_.updated, rank)};
}

}  // namespace foretrain
