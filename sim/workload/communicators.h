#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "sim/cost/exchange.h"
#include "sim/scenario/scenario.h"
#include "sim/symmetry/classes.h"
#include "sim/workload/host_work.h"

namespace foretrain {

// Why ranks communicate.
enum class Purpose : std::uint8_t {
  tensor,          // tensor-parallel group: activations inside a layer
  context,         // context-parallel group: keys and values of the attention
  data,            // data-parallel group: gradients
  shard,           // ranks that share one copy of the sharded state (all of `data`, or a group of it under HSDP)
  replica,         // the same shard in every sharding group
  local,           // ZeRO++: ranks of a group, mostly of a node
  across,          // ZeRO++: the same position in every group
  expert,          // expert-parallel group: tokens to their experts and back
  expert_tensor,   // ranks that split an expert: activations inside it
  expert_data,     // ranks that hold the same experts: their gradients
  expert_shard,    // of them, those that share one copy of the sharded experts
  expert_replica,  // the same shard of the experts in every sharding group
  forward,         // pipeline: activations to the next stage {sender, receiver}
  backward,        // pipeline: gradients to the previous stage {sender, receiver}
  tie,             // first and last stage: gradient of the tied embedding
  mirror,          // dualpipe: the two stages that hold the same chunks of the two copies
  // Not communication between ranks, but work of one rank that shares links and hosts with others'.
  to_host,    // a copy from the GPU to host memory; unit: a byte
  from_host,  // and back
  host_work,  // the optimizer on the host; unit: a byte of DRAM that it moves
  nvme_read,  // from the node's drives to host memory; unit: a byte
  nvme_write,
};
const char* to_string(Purpose purpose);

// A class of communicators that behave alike, ready for the simulation.
struct Communicator {
  Purpose purpose = Purpose::tensor;
  Algorithm algorithm = Algorithm::ring;
  GroupShape shape;
  std::vector<std::uint32_t> rank_classes;  // distinct members; {sender, receiver} for pipeline transfers
  // A link class of the folded cluster and the bytes one unit of the collective's work puts on it.
  struct LinkUse {
    std::uint32_t link;
    double bytes_per_unit;
  };
  std::vector<LinkUse> uses;
};

// How the tokens of the case travel to their experts.
TokenExchange exchange_of(const Case& subject);

// Who communicates in a job, folded. That hangs on the plan and on what is wired to what; rates only tell links apart,
// so it holds as well where all links of a kind are faster by the same factor. For a large job it takes most of the
// time of a simulation.
struct FoldedJob {
  Classes classes;
  struct Group {
    Purpose purpose = Purpose::tensor;
    Algorithm algorithm = Algorithm::ring;
    std::vector<int> ranks;
    std::vector<LinkLoad> loads;
  };
  std::vector<Group> groups;  // the representative of each class
};

// All communication of a job, folded: one rank, one communicator and one link stand for all that cannot differ.
class Communicators {
 public:
  enum class Folding { symmetric, none };
  // `hosts` is looked at only for plans that offload. `known`: the same job's, folded before.
  Communicators(const Case& subject, const Cluster& cluster, const CollectiveConstants& constants, Folding folding,
                const HostRates& hosts = {}, std::shared_ptr<const FoldedJob> known = nullptr);

  const std::shared_ptr<const FoldedJob>& folded() const { return folded_; }
  const std::vector<Classes::RankClass>& rank_classes() const { return folded_->classes.ranks; }
  int stage_of(std::uint32_t rank_class) const { return stages_[rank_class]; }
  const std::vector<Communicator>& all() const { return communicators_; }

  // The communicator a rank class uses for a purpose, when it runs the given algorithm; nullopt for a group of one.
  // For forward and backward: the one it sends on.
  std::optional<std::uint32_t> find(std::uint32_t rank_class, Purpose purpose, Algorithm algorithm) const;
  // How a collective over that purpose's group is done and what it costs.
  CollectiveCost cost(std::uint32_t rank_class, Purpose purpose, Collective op, Bytes bytes) const;

  CollectiveCost cost_of(std::uint32_t communicator, Collective op, Bytes bytes) const;
  // What one NIC gives a group that spans nodes; infinite for a group inside one.
  BytesPerSecond one_nic(std::uint32_t rank_class, Purpose purpose) const;
  // What work of one rank alone costs (to_host and the following); `cap` is of the rank by itself, below what links
  // allow.
  CollectiveCost host_cost(Purpose purpose, double amount) const;
  // How long a tiny all-reduce over every GPU of the job takes.
  Seconds job_wide_latency() const { return job_wide_latency_; }

  struct FoldedLink {
    LinkKind kind = LinkKind::nvlink;
    double rate = 0;  // bytes per second
  };
  const std::vector<FoldedLink>& links() const { return links_; }
  // The entry of links() whose traffic a link of the cluster carries; nullopt for a link that carries nothing.
  std::optional<std::uint32_t> folded_link(LinkId link) const;
  // The kind of the link that limits a communicator when it is alone.
  LinkKind limiting_link(std::uint32_t communicator) const;

  // Whether the traffic inside layers (tensor, context and expert parallel) of the rank class shares no link with
  // anything that may run at the same time, and its whole groups are of this one class: its collectives then last the
  // same whenever they run.
  struct Isolation {
    bool always = false;                // nothing else ever uses these links
    bool outside_data_traffic = false;  // only this stage's data-parallel traffic does
  };
  Isolation isolation(std::uint32_t rank_class) const;

 private:
  const Cluster& cluster_;
  const CollectiveConstants& constants_;
  HostWork host_work_;
  Seconds job_wide_latency_;
  std::shared_ptr<const FoldedJob> folded_;
  std::vector<int> stages_;
  std::vector<Communicator> communicators_;
  std::vector<FoldedLink> links_;
  std::vector<std::uint32_t> folded_class_;          // per link class: into links_
  std::vector<std::vector<std::uint32_t>> by_rank_;  // rank class -> communicators it takes part in
};

}  // namespace foretrain
