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

const char* to_string(ContextParallel kind) {
  switch (kind) {
    case ContextParallel::ring:
      return "ring";
    case ContextParallel::all_gather:
      return "all-gather";
  }
  return "?";
}

std::int64_t default_global_batch(const Plan& plan) {
  return static_cast<std::int64_t>(plan.dp) * plan.pp * plan.micro_batch;
}

std::int64_t micro_batches(const Plan& plan, const Train& train) {
  return train.global_batch / (static_cast<std::int64_t>(plan.dp) * plan.micro_batch);
}

std::int64_t layer_passes(const Plan& plan, const Model& model, const Train& train) {
  // Stages with few layers still run their passes.
  const std::int64_t passes = std::max<std::int64_t>(model.layers, plan.pp * plan.vpp);
  // A backward pass in two halves is half as much again to simulate.
  return micro_batches(plan, train) * passes * (splits_backward(plan.schedule) ? 3 : 2) / 2;
}

namespace {

// Calls visit(coordinate, size) for every dimension of the grid, fastest-varying first. Expert parallelism has size 1.
template <class Coordinates, class Visit>
void along_order(const Plan& plan, Coordinates& c, Visit&& visit) {
  for (const std::string& dimension : plan.order) {
    if (dimension == "tp") visit(c.tp, plan.tp);
    if (dimension == "cp") visit(c.cp, plan.cp);
    if (dimension == "dp") visit(c.dp, plan.dp);
    if (dimension == "pp") visit(c.pp, plan.pp);
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

int rank_of(const Plan& plan, RankCoordinates c) {
  int rank = 0, stride = 1;
  along_order(plan, c, [&](int coordinate, int size) {
    rank += coordinate * stride;
    stride *= size;
  });
  return rank;
}

}  // namespace foretrain
