// Where the ranks of a plan lie: the shapes of their groups, and stages that are alike.

#include <algorithm>
#include <array>
#include <optional>
#include <set>

#include "sim/planner/bounds.h"

namespace foretrain {
namespace {

// Of lanes that differ, as many as are looked at.
constexpr std::size_t kMostLanes = 16;

bool places_alike(const Plan& a, const Plan& b) {
  return a.tp == b.tp && a.pp == b.pp && a.vpp == b.vpp && a.dp == b.dp && a.cp == b.cp && a.ep == b.ep &&
         a.etp == b.etp && a.order == b.order && a.schedule == b.schedule && a.layers == b.layers &&
         a.ends_as_layers == b.ends_as_layers;
}

}  // namespace

const GroupShape& PlanBounds::shape(Purpose purpose, int stage) {
  const Plan& plan = case_.plan;
  const RankCoordinates at = lane_->at;
  const auto key = std::tuple(purpose, place_of(stage), plan.shard_ranks());
  if (const auto known = shapes_.find(key); known != shapes_.end()) return *known->second;
  std::vector<int> ranks;
  std::optional<TokenExchange> exchange;
  if (purpose == Purpose::tensor) {
    for (int tp = 0; tp < plan.tp; ++tp) ranks.push_back(rank_of(plan, {tp, at.dp, stage, at.cp}));
  } else if (purpose == Purpose::expert || purpose == Purpose::expert_tensor) {
    ranks = expert_group(purpose, stage);
    const bool gathers = plan.expert_dispatch == Software::Experts::Dispatch::all_gather;
    if (purpose == Purpose::expert && !gathers) exchange = exchange_of(case_);
  } else if (purpose == Purpose::context) {
    for (int cp = 0; cp < plan.cp; ++cp) ranks.push_back(rank_of(plan, {at.tp, at.dp, stage, cp}));
    if (plan.context == ContextParallel::ulysses) exchange.emplace();
  } else {
    for (int dp = 0; dp < plan.dp; ++dp) {
      for (int cp = 0; cp < plan.cp; ++cp) ranks.push_back(rank_of(plan, {at.tp, dp, stage, cp}));
    }
    std::sort(ranks.begin(), ranks.end());
    const auto group = static_cast<std::size_t>(plan.shard_ranks());
    const auto mine =
        static_cast<std::size_t>(std::lower_bound(ranks.begin(), ranks.end(), rank_at(stage)) - ranks.begin());
    if (purpose == Purpose::shard) {
      const auto first = ranks.begin() + static_cast<std::ptrdiff_t>(mine / group * group);
      ranks = std::vector<int>(first, first + static_cast<std::ptrdiff_t>(group));
    } else if (purpose == Purpose::replica) {
      std::vector<int> replicas;
      for (std::size_t i = mine % group; i < ranks.size(); i += group) replicas.push_back(ranks[i]);
      ranks = std::move(replicas);
    }
  }
  const GroupShape& shape = exchange ? groups_.exchange_shape(ranks, *exchange) : groups_.shape(ranks);
  return *shapes_.emplace(key, &shape).first->second;
}

int PlanBounds::place_of(int stage) const { return static_cast<int>(lane_ - lanes_.data()) * case_.plan.pp + stage; }

int PlanBounds::rank_at(int stage) const {
  return rank_of(case_.plan, {lane_->at.tp, lane_->at.dp, stage, lane_->at.cp});
}

// That the lane's rank on the stage is a member of.
std::vector<int> PlanBounds::expert_group(Purpose purpose, int stage) const {
  const Plan& plan = case_.plan;
  ExpertCoordinates member = expert_coordinates(plan, rank_at(stage));
  int& varied = purpose == Purpose::expert ? member.ep : member.etp;
  std::vector<int> ranks;
  for (varied = 0; varied < (purpose == Purpose::expert ? plan.ep : plan.etp); ++varied) {
    ranks.push_back(rank_of_experts(plan, member));
  }
  return ranks;
}

const GroupShape& PlanBounds::send_shape(int from, int to) {
  const auto [known, inserted] = sends_.try_emplace({place_of(from), place_of(to)});
  if (inserted) {
    const std::array ends = {rank_at(from), rank_at(to)};
    known->second = &groups_.shape(ends);
  }
  return *known->second;
}

void PlanBounds::enter_placement() {
  placed_ = case_.plan;
  shapes_.clear();
  sends_.clear();
  moments_.clear();
  layouts_.clear();
  lanes_.clear();
}

PlanBounds::StageKind PlanBounds::kind_of(int stage) {
  const Plan& plan = case_.plan;
  StageKind kind;
  for (const Chunk& chunk : layouts_[static_cast<std::size_t>(stage)].chunks) {
    std::vector<Run>& runs = kind.chunks.emplace_back();
    for (const Block& block : chunk.blocks) {
      if (!runs.empty() && runs.back().block == block) {
        ++runs.back().count;
      } else {
        runs.push_back({block, 1});
      }
    }
  }
  const ClusterDescription::OddGpu gpu = case_.cluster.oddity_of(rank_at(stage));
  kind.gpu = gpu.kind;
  kind.speed = gpu.speed;
  if (plan.tp > 1) kind.tensor = &shape(Purpose::tensor, stage);
  if (plan.cp > 1) kind.context = &shape(Purpose::context, stage);
  if (case_.model.experts > 0 && plan.ep > 1) kind.expert = &shape(Purpose::expert, stage);
  if (case_.model.experts > 0 && plan.etp > 1) kind.expert_tensor = &shape(Purpose::expert_tensor, stage);
  return kind;
}

const GroupShape* PlanBounds::StageKind::group(Purpose purpose) const {
  switch (purpose) {
    case Purpose::tensor:
      return tensor;
    case Purpose::context:
      return context;
    case Purpose::expert:
      return expert;
    case Purpose::expert_tensor:
      return expert_tensor;
    default:
      return nullptr;
  }
}

bool PlanBounds::StageKind::like(const StageKind& other) const {
  const auto same_runs = [](const std::vector<Run>& a, const std::vector<Run>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](const Run& x, const Run& y) { return x.count == y.count && x.block == y.block; });
  };
  return tensor == other.tensor && context == other.context && expert == other.expert &&
         expert_tensor == other.expert_tensor && gpu == other.gpu && speed == other.speed &&
         std::equal(chunks.begin(), chunks.end(), other.chunks.begin(), other.chunks.end(), same_runs);
}

// The first of every kind; one lane where all GPUs are alike.
std::vector<PlanBounds::Lane> PlanBounds::unlike_lanes() const {
  const Plan& plan = case_.plan;
  using Odd = std::tuple<int, int, double>;  // stage, kind of GPU, speed
  std::map<int, std::vector<Odd>> odd_of_lane;
  for (const ClusterDescription::OddGpu& gpu : case_.cluster.odd_gpus) {
    if (gpu.number >= plan.gpus()) continue;
    const RankCoordinates at = coordinates(plan, gpu.number);
    odd_of_lane[(at.dp * plan.cp + at.cp) * plan.tp + at.tp].emplace_back(at.pp, gpu.kind, gpu.speed);
  }
  std::vector<Lane> lanes;
  std::set<std::vector<Odd>> known;
  for (int lane = 0; lane < plan.dp * plan.cp * plan.tp && lanes.size() < kMostLanes; ++lane) {
    const auto odd = odd_of_lane.find(lane);
    std::vector<Odd> gpus;
    if (odd != odd_of_lane.end()) gpus = std::move(odd->second);
    std::sort(gpus.begin(), gpus.end());
    if (!known.insert(std::move(gpus)).second) continue;
    lanes.push_back(
        {{.tp = lane % plan.tp, .dp = lane / plan.tp / plan.cp, .cp = lane / plan.tp % plan.cp}, {}, {}, {}});
    if (odd_of_lane.empty()) break;
  }
  return lanes;
}

// The cases as the ranks of a lane see them.
void PlanBounds::enter(const Lane& lane) {
  lane_ = &lane;
  if (placed_->shares.empty()) return;
  for (Case& c : cases_) {
    c.plan.shares.clear();
    c.plan.micro_batch = lane.share.micro_batch;
    c.train.global_batch = lane.share.sequences() * c.plan.dp;
  }
  costs_of_kind_.assign(cases_.size(), nullptr);
}

void PlanBounds::enter(const Plan& plan) {
  const bool moved = !placed_ || !places_alike(*placed_, plan);
  const bool other_layers = moved || placed_->recompute.mode != plan.recompute.mode ||
                            placed_->recompute.blocks != plan.recompute.blocks || layouts_.empty();
  for (Case& c : cases_) {
    c.plan = plan;
    c.train.global_batch = global_batch_;
  }
  costs_.forget_if_many();
  costs_of_kind_.assign(cases_.size(), nullptr);
  if (moved) enter_placement();
  placed_ = plan;
  if (other_layers) {
    layouts_ = stage_layouts(case_.model, plan, case_.software, case_.train.peft);
    if (moved) lanes_ = unlike_lanes();
    for (Lane& lane : lanes_) {
      lane_ = &lane;
      lane.kinds.clear();
      lane.kind_of_stage.clear();
      for (int stage = 0; stage < plan.pp; ++stage) {
        StageKind kind = kind_of(stage);
        const auto alike = std::find_if(lane.kinds.begin(), lane.kinds.end(),
                                        [&kind](const StageKind& other) { return other.like(kind); });
        lane.kind_of_stage.push_back(static_cast<std::size_t>(alike - lane.kinds.begin()));
        if (alike == lane.kinds.end()) lane.kinds.push_back(std::move(kind));
      }
    }
  }
  for (Lane& lane : lanes_) lane.share = share_of(plan, case_.train, lane.at.dp);
}

}  // namespace foretrain
