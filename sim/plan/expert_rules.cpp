#include <algorithm>

#include "sim/plan/rules.h"

namespace foretrain {

// In layers with experts the ranks of a stage are dealt anew: etp * ep of them hold all experts.
void resolve_experts(const Question& q, const Software& software, Plan& plan) {
  const Model& m = q.model;
  const std::int64_t ep = q.request.ep.value_or(1), stage = q.tp * q.cp * q.dp;
  if (m.experts == 0) {
    if (ep > 1) q.error("ep", message("ep={} needs a model with experts; legal: 1", ep));
    if (q.request.etp.value_or(1) > 1) q.error("etp", message("etp needs a model with experts; legal: 1"));
    if (q.request.expert_capacity) q.error("capacity_factor", message("capacity_factor needs a model with experts"));
    plan.etp = plan.tp;
    return;
  }
  const auto legal_ep = [&](std::int64_t n, std::int64_t etp) { return m.experts % n == 0 && stage % (n * etp) == 0; };
  const auto legal_etp = [&](std::int64_t n) { return m.expert_ffn % n == 0 && stage % (ep * n) == 0; };
  std::int64_t etp = q.request.etp.value_or(software.experts.tensor_parallel ? q.tp : 1);
  if (!q.request.etp && etp > 1 && !legal_etp(etp)) {
    etp = 1;
    q.note("ep", message("etp is taken as 1: the {} ranks of a stage do not hold tp={} x ep={}", stage, q.tp, ep));
  }
  if (m.experts % ep != 0) {
    q.error("ep", message("ep={} does not divide experts={}; legal: {}", ep, m.experts,
                          listed(only(divisors(stage), [&](std::int64_t n) { return legal_ep(n, 1); }))));
  } else if (stage % ep != 0) {
    q.error("ep",
            message("ep={} does not divide the {} ranks of a stage (tp={} x cp={} x dp={}); legal: {}", ep, stage, q.tp,
                    q.cp, q.dp, listed(only(divisors(stage), [&](std::int64_t n) { return legal_ep(n, 1); }))));
  } else if (!legal_etp(etp)) {
    q.error("etp", message("etp={} must divide expert_ffn={}, and ep={} x etp={} the {} ranks of a stage; legal: {}",
                           etp, m.expert_ffn, ep, etp, stage, listed(only(divisors(stage), legal_etp))));
  }
  // Each rank hands on the tokens it has; without sequence parallelism all ranks of a group have the same ones, and
  // Megatron-Core refuses to train so (core/transformer/moe/moe_layer.py).
  if (q.tp > 1 && !q.request.sequence_parallel.value_or(true)) {
    q.error("sequence_parallel", message("experts with tp={} need sequence_parallel: true, or tp=1", q.tp));
  }
  if (m.shared_expert_ffn % q.tp != 0) {
    q.error("tp", message("tp={} does not divide shared_expert_ffn={}", q.tp, m.shared_expert_ffn));
  }
  // Copies of the sharded state hold the experts as well.
  if (plan.shard_group > 0 && q.tp * plan.shard_group % (ep * etp) != 0) {
    q.error("shard_group", message("shard_group={} must hold all experts, so that tp={} times it is a multiple of "
                                   "ep={} x etp={}; legal: {}",
                                   plan.shard_group, q.tp, ep, etp,
                                   listed(only(divisors(q.data_ranks()),
                                               [&](std::int64_t group) { return q.tp * group % (ep * etp) == 0; }))));
  }
  plan.ep = static_cast<int>(ep);
  plan.etp = static_cast<int>(etp);
  plan.expert_dispatch = q.request.expert_dispatch.value_or(software.experts.dispatch);
  plan.expert_imbalance = q.request.expert_imbalance.value_or(1.0);
  plan.expert_capacity = q.request.expert_capacity.value_or(0.0);
  if (q.request.expert_capacity && q.request.expert_imbalance) {
    q.warning("expert_imbalance",
              message("expert_imbalance has no effect with a capacity_factor: every expert gets as many tokens"));
  }
}

}  // namespace foretrain
