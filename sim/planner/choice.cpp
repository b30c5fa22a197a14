#include "sim/planner/choice.h"

namespace foretrain {
namespace {

constexpr RankOrder kStagesWithinReplicas = {Dimension::tp, Dimension::cp, Dimension::ep, Dimension::pp, Dimension::dp};

std::optional<PlanRequest::OffloadRequest> offload_of(const PlanChoice& choice) {
  using States = PlanChoice::States;
  if (choice.on_host == States::none && !choice.activations_on_host) return std::nullopt;
  const auto place = [&](States of) {
    if (choice.on_drives >= of) return Offload::Place::nvme;
    return choice.on_host >= of ? Offload::Place::cpu : Offload::Place::gpu;
  };
  PlanRequest::OffloadRequest request;
  request.optimizer = place(States::optimizer);
  request.params = place(States::optimizer_and_weights);
  if (choice.activations_on_host) request.activations = Offload::Place::cpu;
  return request;
}

}  // namespace

bool says_offload(const PlanRequest& request) { return request.offload || request.positions.contains("offload"); }

PlanRequest with_fixed(PlanRequest request, const PlanRequest& over) {
  const auto take = [](auto& into, const auto& from) {
    if (from) into = from;
  };
  take(request.tp, over.tp);
  take(request.pp, over.pp);
  take(request.vpp, over.vpp);
  take(request.dp, over.dp);
  take(request.cp, over.cp);
  take(request.ep, over.ep);
  take(request.etp, over.etp);
  take(request.expert_dispatch, over.expert_dispatch);
  take(request.expert_imbalance, over.expert_imbalance);
  take(request.expert_capacity, over.expert_capacity);
  take(request.overlap_ep, over.overlap_ep);
  take(request.zero, over.zero);
  take(request.shard_group, over.shard_group);
  take(request.zeropp, over.zeropp);
  take(request.micro_batch, over.micro_batch);
  take(request.ends_as_layers, over.ends_as_layers);
  if (over.layers || over.layers_auto) {
    request.layers = over.layers;
    request.layers_auto = over.layers_auto;
  }
  if (over.micro_batch || over.splits_unevenly()) {
    request.micro_batch_of_rank = over.micro_batch_of_rank;
    request.micro_batches_of_rank = over.micro_batches_of_rank;
    request.micro_batches_auto = over.micro_batches_auto;
  }
  take(request.context, over.context);
  take(request.sequence_parallel, over.sequence_parallel);
  take(request.overlap_grad_reduce, over.overlap_grad_reduce);
  take(request.overlap_param_gather, over.overlap_param_gather);
  take(request.overlap_tp, over.overlap_tp);
  take(request.overlap_p2p, over.overlap_p2p);
  take(request.schedule, over.schedule);
  take(request.recompute, over.recompute);
  take(request.order, over.order);
  take(request.offload, over.offload);
  for (const auto& [key, position] : over.positions) request.positions[key] = position;
  request.automatic = false;
  return request;
}

PlanRequest without_choices(PlanRequest request) {
  for (auto* value : {&request.tp, &request.pp, &request.vpp, &request.dp, &request.cp, &request.ep, &request.etp,
                      &request.zero, &request.shard_group, &request.micro_batch}) {
    value->reset();
  }
  request.layers.reset();
  request.layers_auto = request.micro_batches_auto = false;
  request.micro_batch_of_rank.reset();
  request.micro_batches_of_rank.reset();
  request.sequence_parallel.reset();
  request.schedule.reset();
  request.zeropp.reset();
  request.recompute.reset();
  request.order.reset();
  request.offload.reset();
  request.micro_batch_auto = false;
  request.positions.clear();
  return request;
}

PlanRequest request_of(const PlanChoice& choice, const PlanRequest& fixed) {
  PlanRequest request = fixed;
  request.automatic = request.micro_batch_auto = false;
  request.tp = choice.tp;
  request.cp = choice.cp;
  request.pp = choice.pp;
  request.ep = choice.ep;
  request.vpp = choice.vpp;
  request.schedule = choice.schedule;
  if (choice.stages_within_replicas) request.order = kStagesWithinReplicas;
  request.zero = choice.zero;
  request.shard_group = choice.shard_group == 0 ? std::nullopt : std::optional(choice.shard_group);
  request.micro_batch = choice.micro_batch;
  request.sequence_parallel = choice.sequence_parallel;
  if (!fixed.recompute) request.recompute = Recompute{choice.recompute, choice.blocks, {}};
  if (!says_offload(fixed)) request.offload = offload_of(choice);
  request.layers_auto = request.layers_auto || choice.layers_by_speed;
  request.micro_batches_auto = request.micro_batches_auto || choice.batch_by_speed;
  return request;
}

}  // namespace foretrain
