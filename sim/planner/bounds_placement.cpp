// Where the ranks of a plan lie: the shapes of their groups, and stages that are alike.

#include <algorithm>
#include <array>
#include <optional>

#include "sim/planner/bounds.h"

namespace foretrain {
namespace {

bool places_alike(const Plan& a, const Plan& b) {
  return a.tp == b.tp && a.pp == b.pp && a.vpp == b.vpp && a.dp == b.dp && a.cp == b.cp && a.ep == b.ep &&
         a.etp == b.etp && a.order == b.order && a.schedule == b.schedule && a.layers == b.layers &&
         a.ends_as_layers == b.ends_as_layers;
}

}  // namespace

const GroupShape& PlanBounds::shape(Purpose purpose, int stage) {
  const Plan& plan = case_.plan;
  const auto key = std::tuple(purpose, stage, plan.shard_ranks());
  if (const auto known = shapes_.find(key); known != shapes_.end()) return *known->second;
  std::vector<int> ranks;
  std::optional<TokenExchange> exchange;
  if (purpose == Purpose::tensor) {
    for (int tp = 0; tp < plan.tp; ++tp) ranks.push_back(rank_of(plan, {tp, 0, stage, 0}));
  } else if (purpose == Purpose::expert || purpose == Purpose::expert_tensor) {
    ranks = expert_group(purpose, stage);
    const bool gathers = plan.expert_dispatch == Software::Experts::Dispatch::all_gather;
    if (purpose == Purpose::expert && !gathers) exchange = exchange_of(case_);
  } else if (purpose == Purpose::context) {
    for (int cp = 0; cp < plan.cp; ++cp) ranks.push_back(rank_of(plan, {0, 0, stage, cp}));
    if (plan.context == ContextParallel::ulysses) exchange.emplace();
  } else {
    for (int dp = 0; dp < plan.dp; ++dp) {
      for (int cp = 0; cp < plan.cp; ++cp) ranks.push_back(rank_of(plan, {0, dp, stage, cp}));
    }
    std::sort(ranks.begin(), ranks.end());
    const auto group = static_cast<std::size_t>(plan.shard_ranks());
    if (purpose == Purpose::shard) {
      ranks.resize(group);
    } else if (purpose == Purpose::replica) {
      std::vector<int> replicas;
      for (std::size_t i = 0; i < ranks.size(); i += group) replicas.push_back(ranks[i]);
      ranks = std::move(replicas);
    }
  }
  const GroupShape& shape = exchange ? groups_.exchange_shape(ranks, *exchange) : groups_.shape(ranks);
  return *shapes_.emplace(key, &shape).first->second;
}

// That the stage's first rank is a member of.
std::vector<int> PlanBounds::expert_group(Purpose purpose, int stage) const {
  const Plan& plan = case_.plan;
  ExpertCoordinates member = expert_coordinates(plan, rank_of(plan, RankCoordinates{.pp = stage}));
  int& varied = purpose == Purpose::expert ? member.ep : member.etp;
  std::vector<int> ranks;
  for (varied = 0; varied < (purpose == Purpose::expert ? plan.ep : plan.etp); ++varied) {
    ranks.push_back(rank_of_experts(plan, member));
  }
  return ranks;
}

const GroupShape& PlanBounds::send_shape(int from, int to) {
  const auto [known, inserted] = sends_.try_emplace({from, to});
  if (inserted) {
    const std::array ends = {rank_of(case_.plan, {0, 0, from, 0}), rank_of(case_.plan, {0, 0, to, 0})};
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

void PlanBounds::enter(const Plan& plan) {
  const bool moved = !placed_ || !places_alike(*placed_, plan);
  const bool other_layers = moved || placed_->recompute.mode != plan.recompute.mode ||
                            placed_->recompute.blocks != plan.recompute.blocks || layouts_.empty();
  case_.plan = plan;
  if (moved) enter_placement();
  placed_ = plan;
  if (other_layers) {
    layouts_ = stage_layouts(case_.model, plan, case_.software, case_.train.peft);
    kinds_.clear();
    kind_of_stage_.clear();
    for (int stage = 0; stage < plan.pp; ++stage) {
      StageKind kind = kind_of(stage);
      const auto alike = std::find_if(kinds_.begin(), kinds_.end(), [&kind](const StageKind& other) {
        const auto same_runs = [](const std::vector<Run>& a, const std::vector<Run>& b) {
          return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                            [](const Run& x, const Run& y) { return x.count == y.count && x.block == y.block; });
        };
        return other.tensor == kind.tensor && other.context == kind.context && other.expert == kind.expert &&
               other.expert_tensor == kind.expert_tensor &&
               std::equal(kind.chunks.begin(), kind.chunks.end(), other.chunks.begin(), other.chunks.end(), same_runs);
      });
      kind_of_stage_.push_back(static_cast<std::size_t>(alike - kinds_.begin()));
      if (alike == kinds_.end()) kinds_.push_back(std::move(kind));
    }
  }
}

}  // namespace foretrain
