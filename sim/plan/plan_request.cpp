#include "sim/plan/plan_request.h"

namespace foretrain {

PlanRequest as_request(const Plan& p, const Model& model) {
  PlanRequest r;
  r.tp = p.tp;
  r.pp = p.pp;
  r.vpp = p.vpp;
  r.dp = p.dp;
  r.cp = p.cp;
  if (model.experts > 0) {
    r.ep = p.ep;
    r.etp = p.etp;
    r.expert_dispatch = p.expert_dispatch;
    r.expert_imbalance = p.expert_imbalance;
  }
  r.context = p.context;
  r.sequence_parallel = p.sequence_parallel;
  r.schedule = p.schedule;
  if (!p.layers.empty()) r.layers = p.layers;
  r.ends_as_layers = p.ends_as_layers;
  // Offload code that one GPU runs remembers the stage that was asked for.
  r.zero = p.offload.any() ? p.offload.zero_stage : p.zero;
  if (p.shard_group > 0) r.shard_group = p.shard_group;
  if (p.zeropp.any()) r.zeropp = p.zeropp;
  r.recompute = p.recompute;
  if (p.offload.any()) {
    r.offload = {p.offload.optimizer, p.offload.params,   p.offload.activations,
                 p.offload.gradients, p.offload.fraction, p.offload.delayed_update};
  }
  r.micro_batch = p.micro_batch;
  r.micro_batches_auto = p.to_balance.batch;
  r.layers_auto = p.to_balance.layers;
  if (!p.shares.empty()) {
    PlanRequest::PerRank sizes, counts;
    for (const Plan::Share& share : p.shares) {
      sizes.of_rank.push_back(share.micro_batch);
      counts.of_rank.push_back(share.micro_batches);
    }
    r.micro_batch_of_rank = sizes;
    r.micro_batches_of_rank = counts;
  }
  r.order = p.order;
  r.overlap_grad_reduce = p.overlap.grad_reduce;
  r.overlap_param_gather = p.overlap.param_gather;
  r.overlap_tp = p.overlap.tp;
  r.overlap_p2p = p.overlap.p2p;
  r.overlap_ep = p.overlap.ep;
  return r;
}

}  // namespace foretrain
