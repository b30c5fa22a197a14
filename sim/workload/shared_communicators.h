#pragma once

#include <compare>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "sim/workload/communicators.h"

namespace foretrain {

// The communicators of plans for one case, folded. Plans whose ranks lie and talk alike share them: they may differ in
// micro-batch, recompute and all else that moves no rank. Any number of threads may use it at once.
class SharedCommunicators {
 public:
  // The references must outlive this.
  SharedCommunicators(const Cluster& cluster, const CollectiveConstants& constants, const HostRates& hosts)
      : cluster_(cluster), constants_(constants), hosts_(hosts) {}

  // Of a case that is always the same but for its plan.
  std::shared_ptr<const Communicators> of(const Case& subject);

 private:
  // What of a plan decides who communicates, and over which links.
  struct Spread {
    int tp, pp, dp, cp, ep, etp;
    RankOrder order = kUsualOrder;
    std::vector<Plan::Share> shares;
    bool last_sends_to_first, there_and_back, two_copies;  // the pipeline
    ContextParallel context;
    Software::Experts::Dispatch dispatch;
    bool shards;
    int shard_ranks, expert_shard_ranks, zeropp_group;
    bool offloads;
    int offload_zero_stage;

    auto operator<=>(const Spread&) const = default;
  };
  static Spread spread_of(const Plan& plan);

  const Cluster& cluster_;
  const CollectiveConstants& constants_;
  const HostRates& hosts_;
  std::mutex mutex_;
  std::map<Spread, std::shared_ptr<const Communicators>> made_;
};

}  // namespace foretrain
