#include <algorithm>

#include "sim/plan/plan.h"

namespace foretrain {

SourcePosition PlanRequest::position_of(std::string_view key) const {
  const auto found = positions.find(key);
  return found == positions.end() ? position : found->second;
}

const char* to_string(PipelineSchedule schedule) {
  switch (schedule) {
    case PipelineSchedule::gpipe:
      return "gpipe";
    case PipelineSchedule::one_f_one_b:
      return "1f1b";
    case PipelineSchedule::interleaved:
      return "interleaved";
    case PipelineSchedule::zero_bubble:
      return "zero-bubble";
    case PipelineSchedule::zero_bubble_2p:
      return "zero-bubble-2p";
    case PipelineSchedule::zero_bubble_v:
      return "zero-bubble-v";
    case PipelineSchedule::dualpipe:
      return "dualpipe";
    case PipelineSchedule::dualpipe_v:
      return "dualpipe-v";
  }
  return "?";
}

const char* to_string(Offload::Place place) {
  switch (place) {
    case Offload::Place::gpu:
      return "gpu";
    case Offload::Place::cpu:
      return "cpu";
    case Offload::Place::nvme:
      return "nvme";
  }
  return "?";
}

const char* to_string(ContextParallel kind) {
  switch (kind) {
    case ContextParallel::ring:
      return "ring";
    case ContextParallel::all_gather:
      return "all-gather";
    case ContextParallel::ulysses:
      return "ulysses";
  }
  return "?";
}

const char* to_string(Dimension dimension) {
  constexpr std::array names = {"tp", "cp", "ep", "dp", "pp"};
  return names[static_cast<std::size_t>(dimension)];
}

std::string to_string(const RankOrder& order) {
  std::string joined;
  for (const Dimension dimension : order) joined += (joined.empty() ? "" : "-") + std::string(to_string(dimension));
  return joined;
}

std::int64_t default_micro_batches(const Plan& plan) { return feeds_schedule(plan, plan.pp) ? plan.pp : 2 * plan.pp; }

std::int64_t default_global_batch(const Plan& plan) {
  if (!plan.shares.empty()) {
    std::int64_t sequences = 0;
    for (const Plan::Share& share : plan.shares) sequences += share.sequences();
    return sequences;
  }
  return static_cast<std::int64_t>(plan.dp) * default_micro_batches(plan) * plan.micro_batch;
}

std::int64_t micro_batches(const Plan& plan, const Train& train) {
  if (!plan.shares.empty()) {
    const auto fewer = [](const Plan::Share& a, const Plan::Share& b) { return a.micro_batches < b.micro_batches; };
    return std::max_element(plan.shares.begin(), plan.shares.end(), fewer)->micro_batches;
  }
  return train.global_batch / (static_cast<std::int64_t>(plan.dp) * plan.micro_batch);
}

Plan::Share share_of(const Plan& plan, const Train& train, int data_rank) {
  if (!plan.shares.empty()) return plan.shares[static_cast<std::size_t>(data_rank)];
  return {plan.micro_batch, micro_batches(plan, train)};
}

Plan with_shares(Plan plan, std::vector<Plan::Share> shares) {
  plan.micro_batch = 1;
  for (const Plan::Share& share : shares) plan.micro_batch = std::max(plan.micro_batch, share.micro_batch);
  const bool alike = std::all_of(shares.begin(), shares.end(), [&](const auto& s) { return s == shares.front(); });
  plan.shares = alike ? std::vector<Plan::Share>{} : std::move(shares);
  return plan;
}

bool meets_every_micro_batch(const Plan& plan, const Software& software) {
  return (plan.zero == 3 && plan.pp == 1) || (plan.zero == 2 && software.zero2_reduce_each_micro_batch);
}

std::int64_t layer_passes(const Plan& plan, const Model& model, const Train& train) {
  // Stages with few layers still run their passes.
  const std::int64_t passes = std::max<std::int64_t>(model.layers, plan.pp * plan.vpp);
  // A backward pass in two halves is half as much again to simulate.
  return micro_batches(plan, train) * passes * (splits_backward(plan.schedule) ? 3 : 2) / 2;
}

namespace {

// Calls visit(coordinate, size) for every dimension of the grid, fastest-varying first. Experts have a grid of their
// own.
template <class Coordinates, class Visit>
void along_order(const Plan& plan, Coordinates& c, Visit&& visit) {
  for (const Dimension dimension : plan.order) {
    if (dimension == Dimension::tp) visit(c.tp, plan.tp);
    if (dimension == Dimension::cp) visit(c.cp, plan.cp);
    if (dimension == Dimension::dp) visit(c.dp, plan.dp);
    if (dimension == Dimension::pp) visit(c.pp, plan.pp);
  }
}

}  // namespace

RankCoordinates coordinates(const Plan& plan, int rank) {
  RankCoordinates c;
  along_order(plan, c, [&rank](int& coordinate, int size) {
    coordinate = rank % size;
    rank /= size;
  });
  return c;
}

ExpertCoordinates expert_coordinates(const Plan& plan, int rank) {
  int within = 0, stride = 1;  // among the ranks of the stage
  RankCoordinates c = coordinates(plan, rank);
  for (const Dimension dimension : plan.order) {
    if (dimension == Dimension::tp) within += c.tp * stride, stride *= plan.tp;
    if (dimension == Dimension::cp) within += c.cp * stride, stride *= plan.cp;
    if (dimension == Dimension::dp) within += c.dp * stride, stride *= plan.dp;
  }
  ExpertCoordinates e{.pp = c.pp};
  for (const Dimension dimension : plan.order) {
    auto deal = [&within](int& coordinate, int size) {
      coordinate = within % size;
      within /= size;
    };
    if (dimension == Dimension::tp) deal(e.etp, plan.etp);
    if (dimension == Dimension::ep) deal(e.ep, plan.ep);
    if (dimension == Dimension::dp) deal(e.data, plan.expert_data_ranks());
  }
  return e;
}

int rank_of_experts(const Plan& plan, ExpertCoordinates e) {
  int within = 0, stride = 1;  // among the ranks of the stage
  for (const Dimension dimension : plan.order) {
    if (dimension == Dimension::tp) within += e.etp * stride, stride *= plan.etp;
    if (dimension == Dimension::ep) within += e.ep * stride, stride *= plan.ep;
    if (dimension == Dimension::dp) within += e.data * stride, stride *= plan.expert_data_ranks();
  }
  RankCoordinates c{.pp = e.pp};
  for (const Dimension dimension : plan.order) {
    auto deal = [&within](int& coordinate, int size) {
      coordinate = within % size;
      within /= size;
    };
    if (dimension == Dimension::tp) deal(c.tp, plan.tp);
    if (dimension == Dimension::cp) deal(c.cp, plan.cp);
    if (dimension == Dimension::dp) deal(c.dp, plan.dp);
  }
  return rank_of(plan, c);
}

int rank_of(const Plan& plan, RankCoordinates c) {
  int rank = 0, stride = 1;
  along_order(plan, c, [&](int coordinate, int size) {
    rank += coordinate * stride;
    stride *= size;
  });
  return rank;
}

}  // namespace foretrain
