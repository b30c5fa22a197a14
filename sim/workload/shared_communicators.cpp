#include "sim/workload/shared_communicators.h"

namespace foretrain {
namespace {

// Kept before they are forgotten: those of a thousand GPUs take some hundred kilobytes.
constexpr std::size_t kMostKept = 256;

}  // namespace

SharedCommunicators::Spread SharedCommunicators::spread_of(const Plan& plan) {
  const bool there_and_back = goes_there_and_back(plan.schedule);
  return {.tp = plan.tp,
          .pp = plan.pp,
          .dp = plan.dp,
          .cp = plan.cp,
          .ep = plan.ep,
          .etp = plan.etp,
          .order = plan.order,
          .shares = plan.shares,
          .last_sends_to_first = plan.vpp > 1 && !there_and_back,
          .there_and_back = there_and_back,
          .two_copies = plan.schedule == PipelineSchedule::dualpipe,
          .context = plan.context,
          .dispatch = plan.expert_dispatch,
          .shards = plan.zero > 0,
          .shard_ranks = plan.shard_ranks(),
          .expert_shard_ranks = plan.expert_shard_ranks(),
          .zeropp_group = plan.zeropp.any() ? plan.zeropp.group : 0,
          .offloads = plan.offload.any(),
          .offload_zero_stage = plan.offload.zero_stage};
}

std::shared_ptr<const Communicators> SharedCommunicators::of(const Case& subject) {
  const Spread spread = spread_of(subject.plan);
  {
    const std::lock_guard one_at_a_time(mutex_);
    if (const auto known = made_.find(spread); known != made_.end()) return known->second;
  }
  auto made =
      std::make_shared<const Communicators>(subject, cluster_, constants_, Communicators::Folding::symmetric, hosts_);
  const std::lock_guard one_at_a_time(mutex_);
  if (made_.size() >= kMostKept) made_.clear();
  made_[spread] = made;
  return made;
}

}  // namespace foretrain
