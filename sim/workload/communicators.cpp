#include "sim/workload/communicators.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <numeric>

#include "sim/base/random.h"
#include "sim/cost/placed_groups.h"

namespace foretrain {
namespace {

// Colours of rank classes and kinds of groups are small numbers packed by position; the refinement mixes them.
std::uint64_t group_kind(Purpose purpose, Algorithm algorithm, int stage, const GroupShape& shape) {
  std::uint64_t kind = static_cast<std::uint64_t>(purpose);
  kind = kind * 8 + static_cast<std::uint64_t>(algorithm);
  kind = kind * 65536 + static_cast<std::uint64_t>(stage);
  kind = kind * 8 + static_cast<std::uint64_t>(shape.medium);
  kind = kind * 1048576 + static_cast<std::uint64_t>(shape.nodes);
  return kind * 256 + static_cast<std::uint64_t>(shape.nics_per_node);
}

struct Job {
  explicit Job(const Cluster& cluster) : placed(cluster) {}

  PlacedGroups placed;
  std::vector<CommunicatorGroup> groups;
  struct About {
    Purpose purpose;
    Algorithm algorithm;
  };
  std::vector<About> about;
};

// A send is one hop; everything else may run as a ring, and all-reduces by the algorithms the group could choose.
std::vector<Algorithm> possible_algorithms(Purpose purpose, const GroupShape& shape) {
  if (purpose == Purpose::forward || purpose == Purpose::backward) return {Algorithm::direct};
  std::vector<Algorithm> algorithms = {Algorithm::ring};
  if (purpose == Purpose::shard || purpose == Purpose::context || purpose == Purpose::expert ||
      purpose == Purpose::expert_tensor || purpose == Purpose::expert_shard || purpose == Purpose::local ||
      purpose == Purpose::across)
    return algorithms;  // gathers and scatters are rings
  if (shape.nodes > 1) algorithms.push_back(Algorithm::tree);
  if (shape.nodes == 1 && shape.multicast && shape.ranks > 2) algorithms.push_back(Algorithm::nvls);
  return algorithms;
}

void add_group(Job& job, Purpose purpose, int stage, const std::vector<int>& ranks) {
  if (ranks.size() < 2) return;
  const GroupShape& shape = job.placed.shape(ranks);
  for (Algorithm algorithm : possible_algorithms(purpose, shape)) {
    CommunicatorGroup group;
    group.kind = group_kind(purpose, algorithm, stage, shape);
    group.ordered = algorithm == Algorithm::direct;
    group.loads = job.placed.loads(ranks, algorithm);
    group.ranks = ranks;
    job.groups.push_back(std::move(group));
    job.about.push_back({purpose, algorithm});
  }
}

// Ranks with the same parameters, in groups that share one copy of the sharded state, and across these.
struct ShardPurposes {
  Purpose shard, replica;
};
void add_shard_groups(Job& job, ShardPurposes purposes, int group, int stage, const std::vector<int>& ranks) {
  const int count = static_cast<int>(ranks.size());
  for (int first = 0; first < count; first += group) {
    add_group(job, purposes.shard, stage, {ranks.begin() + first, ranks.begin() + first + group});
  }
  if (group == count) return;
  for (int member = 0; member < group; ++member) {
    std::vector<int> replicas;
    for (int i = member; i < count; i += group) replicas.push_back(ranks[static_cast<std::size_t>(i)]);
    add_group(job, purposes.replica, stage, std::move(replicas));
  }
}

void add_data_groups(Job& job, const Case& c, int tp, int stage) {
  std::vector<int> ranks;
  for (int dp = 0; dp < c.plan.dp; ++dp) {
    for (int cp = 0; cp < c.plan.cp; ++cp) ranks.push_back(rank_of(c.plan, {tp, dp, stage, cp}));
  }
  std::sort(ranks.begin(), ranks.end());
  add_group(job, Purpose::data, stage, ranks);
  if (c.plan.zero > 0) add_shard_groups(job, {Purpose::shard, Purpose::replica}, c.plan.shard_ranks(), stage, ranks);
  if (c.plan.zeropp.any()) add_shard_groups(job, {Purpose::local, Purpose::across}, c.plan.zeropp.group, stage, ranks);
}

void add_exchange_group(Job& job, Purpose purpose, const TokenExchange& tokens, int stage, std::vector<int> ranks) {
  if (ranks.size() < 2) return;
  auto [shape, loads] = job.placed.exchange(ranks, tokens);
  CommunicatorGroup group;
  group.loads = std::move(loads);
  group.kind = group_kind(purpose, Algorithm::all_to_all, stage, shape);
  group.ranks = std::move(ranks);
  job.groups.push_back(std::move(group));
  job.about.push_back({purpose, Algorithm::all_to_all});
}

// The groups of layers with experts, all stages together.
void add_expert_groups(Job& job, const Case& c) {
  if (c.model.experts == 0) return;
  const Plan& plan = c.plan;
  const int data = plan.expert_data_ranks();
  // [stage][data][ep][etp]
  std::vector<int> grid(static_cast<std::size_t>(plan.gpus()));
  const auto at = [&](int stage, int d, int ep, int etp) -> int& {
    return grid[static_cast<std::size_t>(((stage * data + d) * plan.ep + ep) * plan.etp + etp)];
  };
  for (int rank = 0; rank < plan.gpus(); ++rank) {
    const ExpertCoordinates e = expert_coordinates(plan, rank);
    at(e.pp, e.data, e.ep, e.etp) = rank;
  }
  for (int stage = 0; stage < plan.pp; ++stage) {
    for (int d = 0; d < data; ++d) {
      for (int etp = 0; etp < plan.etp; ++etp) {
        std::vector<int> ranks;
        for (int ep = 0; ep < plan.ep; ++ep) ranks.push_back(at(stage, d, ep, etp));
        if (plan.expert_dispatch == Software::Experts::Dispatch::all_gather)
          add_group(job, Purpose::expert, stage, std::move(ranks));
        else
          add_exchange_group(job, Purpose::expert, exchange_of(c), stage, std::move(ranks));
      }
      for (int ep = 0; ep < plan.ep; ++ep) {
        std::vector<int> ranks;
        for (int etp = 0; etp < plan.etp; ++etp) ranks.push_back(at(stage, d, ep, etp));
        add_group(job, Purpose::expert_tensor, stage, std::move(ranks));
      }
    }
    if (plan.experts_as_rest()) continue;
    for (int ep = 0; ep < plan.ep; ++ep) {
      for (int etp = 0; etp < plan.etp; ++etp) {
        std::vector<int> ranks;
        for (int d = 0; d < data; ++d) ranks.push_back(at(stage, d, ep, etp));
        std::sort(ranks.begin(), ranks.end());
        add_group(job, Purpose::expert_data, stage, ranks);
        if (plan.zero == 0) continue;
        add_shard_groups(job, {Purpose::expert_shard, Purpose::expert_replica}, plan.expert_shard_ranks(), stage,
                         ranks);
      }
    }
  }
}

void add_pipeline_groups(Job& job, const Case& c, int tp, int cp, int dp) {
  const int stages = c.plan.pp;
  // With several chunks a stage the last stage passes on to the first, unless the chunks go back again.
  const int edges = c.plan.vpp > 1 && !goes_there_and_back(c.plan.schedule) ? stages : stages - 1;
  for (int stage = 0; stage < edges; ++stage) {
    const int here = rank_of(c.plan, {tp, dp, stage, cp});
    const int next = rank_of(c.plan, {tp, dp, (stage + 1) % stages, cp});
    add_group(job, Purpose::forward, stage, {here, next});
    add_group(job, Purpose::backward, stage, {next, here});
  }
  if (c.model.tied_embeddings && !ends_share_a_stage(c.plan)) {
    add_group(job, Purpose::tie, 0, {rank_of(c.plan, {tp, dp, 0, cp}), rank_of(c.plan, {tp, dp, stages - 1, cp})});
  }
  if (c.plan.schedule != PipelineSchedule::dualpipe) return;
  for (int stage = 0; stage < stages / 2; ++stage) {
    add_group(job, Purpose::mirror, stage,
              {rank_of(c.plan, {tp, dp, stage, cp}), rank_of(c.plan, {tp, dp, stages - 1 - stage, cp})});
  }
}

// What every rank does with its host, as groups of one: they share links with each other and with the collectives.
void add_host_groups(Job& job, const Case& c, const Cluster& cluster, const HostWork& host) {
  for (int rank = 0; rank < c.plan.gpus(); ++rank) {
    const int stage = coordinates(c.plan, rank).pp;
    for (const Purpose purpose :
         {Purpose::to_host, Purpose::from_host, Purpose::host_work, Purpose::nvme_read, Purpose::nvme_write}) {
      CommunicatorGroup group;
      group.kind = group_kind(purpose, Algorithm::direct, stage, {});
      group.ranks = {rank};
      group.loads = host_loads(purpose, rank, cluster, host);
      job.groups.push_back(std::move(group));
      job.about.push_back({purpose, Algorithm::direct});
    }
  }
}

Job communicating_groups(const Case& c, const Cluster& cluster, const HostWork& host) {
  Job job(cluster);
  for (int stage = 0; stage < c.plan.pp; ++stage) {
    for (int dp = 0; dp < c.plan.dp; ++dp) {
      for (int cp = 0; cp < c.plan.cp; ++cp) {
        std::vector<int> ranks;
        for (int tp = 0; tp < c.plan.tp; ++tp) ranks.push_back(rank_of(c.plan, {tp, dp, stage, cp}));
        add_group(job, Purpose::tensor, stage, std::move(ranks));
      }
      for (int tp = 0; tp < c.plan.tp; ++tp) {
        std::vector<int> ranks;
        for (int cp = 0; cp < c.plan.cp; ++cp) ranks.push_back(rank_of(c.plan, {tp, dp, stage, cp}));
        if (c.plan.context == ContextParallel::ulysses)
          add_exchange_group(job, Purpose::context, {}, stage, std::move(ranks));
        else
          add_group(job, Purpose::context, stage, std::move(ranks));
      }
    }
    for (int tp = 0; tp < c.plan.tp; ++tp) add_data_groups(job, c, tp, stage);
  }
  for (int dp = 0; dp < c.plan.dp; ++dp) {
    for (int cp = 0; cp < c.plan.cp; ++cp) {
      for (int tp = 0; tp < c.plan.tp; ++tp) add_pipeline_groups(job, c, tp, cp, dp);
    }
  }
  add_expert_groups(job, c);
  if (c.plan.offload.any()) add_host_groups(job, c, cluster, host);
  return job;
}

bool is_host_work(Purpose purpose) { return purpose >= Purpose::to_host; }

GroupShape shape_of_group(const Cluster& cluster, const FoldedJob::Group& group) {
  if (is_host_work(group.purpose)) return {};
  const GroupShape shape = shape_of(cluster, group.ranks);
  return group.algorithm == Algorithm::all_to_all ? with_exchange(shape, cluster, group.loads) : shape;
}

// Ranks may fold that have the same stage, the same share of the batch and the same GPU; none where every one is to be
// simulated.
std::vector<std::uint64_t> rank_colours(const Case& c, bool folds) {
  std::vector<std::uint64_t> colours(static_cast<std::size_t>(c.plan.gpus()));
  for (std::size_t r = 0; r < colours.size(); ++r) {
    colours[r] = folds ? static_cast<std::uint64_t>(coordinates(c.plan, static_cast<int>(r)).pp) : r;
  }
  for (std::size_t r = 0; folds && r < colours.size() && !c.plan.shares.empty(); ++r) {
    const Plan::Share& share = c.plan.shares[static_cast<std::size_t>(coordinates(c.plan, static_cast<int>(r)).dp)];
    colours[r] = mix_bits(mix_bits(colours[r] ^ static_cast<std::uint64_t>(share.micro_batch) << 32) ^
                          static_cast<std::uint64_t>(share.micro_batches));
  }
  for (const ClusterDescription::OddGpu& odd : c.cluster.odd_gpus) {
    if (!folds || odd.number >= c.plan.gpus()) continue;
    std::uint64_t& colour = colours[static_cast<std::size_t>(odd.number)];
    colour = mix_bits(mix_bits(colour ^ static_cast<std::uint64_t>(odd.kind) << 32) ^
                      std::bit_cast<std::uint64_t>(odd.speed));
  }
  return colours;
}

FoldedJob fold(const Case& c, const Cluster& cluster, const HostWork& host, bool folds) {
  Job job = communicating_groups(c, cluster, host);
  FoldedJob folded{refine(rank_colours(c, folds), job.groups, cluster), {}};
  for (const Classes::GroupClass& group : folded.classes.groups) {
    const Job::About& about = job.about[group.representative];
    CommunicatorGroup& representative = job.groups[group.representative];
    folded.groups.push_back(
        {about.purpose, about.algorithm, std::move(representative.ranks), std::move(representative.loads)});
  }
  return folded;
}

}  // namespace

const char* to_string(Purpose purpose) {
  constexpr std::array names = {
      "tensor", "context",       "data",        "shard",        "replica",        "local",     "across",
      "expert", "expert tensor", "expert data", "expert shard", "expert replica", "forward",   "backward",
      "tie",    "mirror",        "to host",     "from host",    "host work",      "nvme read", "nvme write"};
  return names[static_cast<std::size_t>(purpose)];
}

TokenExchange exchange_of(const Case& c) {
  return {.two_level = c.plan.expert_dispatch == Software::Experts::Dispatch::two_level,
          .experts = static_cast<int>(c.model.experts),
          .top_k = static_cast<int>(c.model.top_k),
          .groups = static_cast<int>(c.model.expert_groups),
          .top_groups = static_cast<int>(c.model.top_k_groups)};
}

Communicators::Communicators(const Case& c, const Cluster& cluster, const CollectiveConstants& constants,
                             Folding folding, const HostRates& hosts, std::shared_ptr<const FoldedJob> known)
    : cluster_(cluster), constants_(constants), host_work_(host_work(c, cluster, hosts)), folded_(std::move(known)) {
  std::vector<int> everyone(static_cast<std::size_t>(cluster.gpu_count()));
  std::iota(everyone.begin(), everyone.end(), 0);
  job_wide_latency_ =
      collective_cost(Collective::all_reduce, {8.0}, shape_of(cluster, everyone), cluster, constants).latency;
  if (!folded_) {
    folded_ = std::make_shared<const FoldedJob>(fold(c, cluster, host_work_, folding == Folding::symmetric));
  }
  const Classes& classes = folded_->classes;
  for (const Classes::RankClass& rank : classes.ranks) stages_.push_back(coordinates(c.plan, rank.representative).pp);

  by_rank_.resize(classes.ranks.size());
  for (std::size_t g = 0; g < folded_->groups.size(); ++g) {
    const FoldedJob::Group& group = folded_->groups[g];
    Communicator communicator{group.purpose, group.algorithm, shape_of_group(cluster, group), {}, {}};
    for (int rank : group.ranks) {
      const std::uint32_t rank_class = classes.class_of_rank[static_cast<std::size_t>(rank)];
      std::vector<std::uint32_t>& members = communicator.rank_classes;
      const bool ordered = group.algorithm == Algorithm::direct;
      if (ordered || std::find(members.begin(), members.end(), rank_class) == members.end())
        members.push_back(rank_class);
    }
    for (std::uint32_t member : communicator.rank_classes) {
      std::vector<std::uint32_t>& mine = by_rank_[member];
      if (mine.empty() || mine.back() != g) mine.push_back(static_cast<std::uint32_t>(g));
    }
    communicators_.push_back(std::move(communicator));
  }

  // Links in series carry the same traffic; only the tightest of them can ever bind.
  std::vector<std::size_t> kept;
  auto same_traffic = [&](const Classes::LinkClass& a, const Classes::LinkClass& b) {
    return a.uses.size() == b.uses.size() &&
           std::equal(a.uses.begin(), a.uses.end(), b.uses.begin(), [](const auto& x, const auto& y) {
             return x.group_class == y.group_class && x.bytes_per_unit == y.bytes_per_unit;
           });
  };
  for (std::size_t l = 0; l < classes.links.size(); ++l) {
    const Link link = cluster.link(classes.links[l].representative);
    const auto twin = std::find_if(kept.begin(), kept.end(), [&](std::size_t other) {
      return same_traffic(classes.links[other], classes.links[l]);
    });
    folded_class_.push_back(static_cast<std::uint32_t>(twin - kept.begin()));
    if (twin == kept.end()) {
      kept.push_back(l);
      links_.push_back({link.kind, link.rate.value});
    } else {
      FoldedLink& folded = links_[static_cast<std::size_t>(twin - kept.begin())];
      if (link.rate.value < folded.rate) folded = {link.kind, link.rate.value};
    }
  }
  for (std::size_t l = 0; l < kept.size(); ++l) {
    for (const Classes::LinkClass::Use& use : classes.links[kept[l]].uses) {
      communicators_[use.group_class].uses.push_back({static_cast<std::uint32_t>(l), use.bytes_per_unit});
    }
  }
}

std::optional<std::uint32_t> Communicators::find(std::uint32_t rank_class, Purpose purpose, Algorithm algorithm) const {
  for (std::uint32_t id : by_rank_[rank_class]) {
    const Communicator& communicator = communicators_[id];
    if (communicator.purpose != purpose || communicator.algorithm != algorithm) continue;
    if (algorithm == Algorithm::direct && communicator.rank_classes.front() != rank_class) continue;
    return id;
  }
  return std::nullopt;
}

CollectiveCost Communicators::cost(std::uint32_t rank_class, Purpose purpose, Collective op, Bytes bytes) const {
  for (std::uint32_t id : by_rank_[rank_class]) {
    if (communicators_[id].purpose == purpose) {
      return collective_cost(op, bytes, communicators_[id].shape, cluster_, constants_);
    }
  }
  return {};
}

CollectiveCost Communicators::cost_of(std::uint32_t communicator, Collective op, Bytes bytes) const {
  return collective_cost(op, bytes, communicators_[communicator].shape, cluster_, constants_);
}

CollectiveCost Communicators::host_cost(Purpose purpose, double amount) const {
  const double units = host_units(purpose, amount, host_work_);
  return {Algorithm::direct, host_work_.latency, {units}, {host_rate(purpose, host_work_)}};
}

BytesPerSecond Communicators::one_nic(std::uint32_t rank_class, Purpose purpose) const {
  for (std::uint32_t id : by_rank_[rank_class]) {
    const Communicator& c = communicators_[id];
    if (c.purpose == purpose && c.shape.nodes > 1) return c.shape.nic_rate;
  }
  return {std::numeric_limits<double>::infinity()};
}

std::optional<std::uint32_t> Communicators::folded_link(LinkId link) const {
  const auto& all = folded_->classes.class_of_link;
  const auto found =
      std::lower_bound(all.begin(), all.end(), link, [](const auto& entry, LinkId id) { return entry.first < id; });
  if (found == all.end() || found->first != link) return std::nullopt;
  return folded_class_[found->second];
}

LinkKind Communicators::limiting_link(std::uint32_t communicator) const {
  double slowest = std::numeric_limits<double>::infinity();
  LinkKind kind = LinkKind::nvlink;
  for (const Communicator::LinkUse& use : communicators_[communicator].uses) {
    const double rate = links_[use.link].rate / use.bytes_per_unit;
    if (rate < slowest) {
      slowest = rate;
      kind = links_[use.link].kind;
    }
  }
  return kind;
}

Communicators::Isolation Communicators::isolation(std::uint32_t rank_class) const {
  const auto inside_layers = [](Purpose p) {
    return p == Purpose::tensor || p == Purpose::context || p == Purpose::expert || p == Purpose::expert_tensor;
  };
  std::vector<bool> mine(links_.size(), false);
  for (std::uint32_t id : by_rank_[rank_class]) {
    const Communicator& communicator = communicators_[id];
    if (!inside_layers(communicator.purpose)) continue;
    if (communicator.rank_classes.size() != 1) return {};
    for (const Communicator::LinkUse& use : communicator.uses) mine[use.link] = true;
  }
  Isolation isolation{true, true};
  for (const Communicator& other : communicators_) {
    const bool same = inside_layers(other.purpose) && other.rank_classes.front() == rank_class;
    if (same) continue;
    const bool shares =
        std::any_of(other.uses.begin(), other.uses.end(), [&](const auto& use) { return mine[use.link]; });
    if (!shares) continue;
    isolation.always = false;
    const bool own_data_traffic =
        (other.purpose == Purpose::data || other.purpose == Purpose::shard || other.purpose == Purpose::replica ||
         other.purpose == Purpose::local || other.purpose == Purpose::across || other.purpose == Purpose::expert_data ||
         other.purpose == Purpose::expert_shard || other.purpose == Purpose::expert_replica) &&
        std::all_of(other.rank_classes.begin(), other.rank_classes.end(),
                    [&](std::uint32_t r) { return stages_[r] == stages_[rank_class]; });
    // Tied embeddings and mirrored chunks are reduced after the last pass, when no layer runs on either stage.
    const bool after_the_passes = other.purpose == Purpose::tie || other.purpose == Purpose::mirror;
    if (!own_data_traffic && !after_the_passes) isolation.outside_data_traffic = false;
  }
  return isolation;
}

}  // namespace foretrain
