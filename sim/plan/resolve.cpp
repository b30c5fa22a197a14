#include <algorithm>

#include "sim/plan/read_offload.h"
#include "sim/plan/rules.h"

namespace foretrain {

std::vector<std::int64_t> divisors(std::int64_t n) {
  std::vector<std::int64_t> low, high;
  for (std::int64_t i = 1; i * i <= n; ++i) {
    if (n % i != 0) continue;
    low.push_back(i);
    if (i != n / i) high.push_back(n / i);
  }
  low.insert(low.end(), high.rbegin(), high.rend());
  return low;
}

std::string listed(const std::vector<std::int64_t>& values) {
  constexpr std::size_t kMostListed = 16;
  if (values.empty()) return "none";
  if (values.size() <= kMostListed) return fmt::format("{}", fmt::join(values, ", "));
  return fmt::format("{}, ... {}", fmt::join(values.begin(), values.begin() + kMostListed - 1, ", "), values.back());
}

std::vector<std::int64_t> only(std::vector<std::int64_t> values, const std::function<bool(std::int64_t)>& legal) {
  std::erase_if(values, [&legal](std::int64_t v) { return !legal(v); });
  return values;
}

namespace {

Plan::Overlap resolve_overlap(const PlanRequest& request, const Software& software) {
  Plan::Overlap overlap;
  overlap.grad_reduce = request.overlap_grad_reduce.value_or(software.overlap_grad_reduce);
  overlap.param_gather = request.overlap_param_gather.value_or(software.overlap_param_gather);
  overlap.tp = request.overlap_tp.value_or(software.tp_overlap);
  overlap.ep = request.overlap_ep.value_or(software.experts.overlap);
  // Schedules that cut the backward pass were made for transfers beside compute.
  const bool made_for_it = request.schedule && splits_backward(*request.schedule);
  const bool interleaved = software.pipeline_overlap_interleaved && request.vpp.value_or(1) > 1;
  overlap.p2p = request.overlap_p2p.value_or(made_for_it || interleaved);
  return overlap;
}

}  // namespace

std::optional<Plan> resolve_plan(const PlanRequest& request, const Model& model, const Train& train,
                                 const ClusterDescription& cluster, const Software& software,
                                 Diagnostics& diagnostics) {
  const int errors_before = diagnostics.error_count();
  Question q{request, model, train, cluster, diagnostics};
  q.tp = request.tp.value_or(1);
  q.pp = request.pp.value_or(1);
  q.vpp = request.vpp.value_or(natural_chunks(request));
  q.cp = request.cp.value_or(1);
  q.micro_batch = request.micro_batch.value_or(1);

  Plan plan;
  check_tensor_parallel(q);
  check_pipeline(q);
  plan.schedule = choose_schedule(q);
  plan.all_forward_first = software.interleaved_all_forward_first;
  plan.ends_as_layers = static_cast<int>(request.ends_as_layers.value_or(0));
  plan.layers = request.layers.value_or(std::vector<std::int64_t>{});
  for (const Gpu* gpu : q.cluster.unlike_gpus()) {
    check_precision(q, *gpu);
    check_attention(q, *gpu);
  }
  resolve_context_parallel(q, plan);
  resolve_sequence_parallel(q, plan);
  resolve_recompute(q, plan);
  if (!divide_gpus(q)) return std::nullopt;  // the rules below need dp
  plan.pp = static_cast<int>(q.pp);
  plan.vpp = static_cast<int>(q.vpp);
  plan.tp = static_cast<int>(q.tp);
  check_batch(q, plan);
  resolve_sharding(q, software, plan);
  resolve_zeropp(q, software, plan);
  resolve_experts(q, software, plan);
  check_fp8_recipe(q, plan);
  check_peft(q, software, plan);
  check_optimizer(q, plan);
  if (request.offload && splits_backward(plan.schedule)) {
    diagnostics.unsupported(
        request.position_of("offload"),
        message("plan.offload with plan.schedule={} (legal: gpipe, 1f1b, interleaved)", to_string(plan.schedule)));
  }
  if (request.offload && request.offload->params != Offload::Place::gpu && plan.zero == 3 && q.pp > 1) {
    diagnostics.unsupported(
        request.position_of("offload"),
        message("plan.offload.params with plan.zero=3 and plan.pp above 1 (legal: offload: optimizer, or pp=1)"));
  }
  plan.offload = resolve_offload(request, static_cast<int>(request.zero.value_or(0)), q.data_ranks(), train, software,
                                 cluster, diagnostics);
  if (diagnostics.error_count() > errors_before) return std::nullopt;

  plan.dp = static_cast<int>(q.dp);
  plan.cp = static_cast<int>(q.cp);
  plan.micro_batch = q.micro_batch;
  if (request.order) plan.order = *request.order;
  plan.overlap = resolve_overlap(request, software);
  plan.to_balance.layers = request.layers_auto && plan.pp > 1;
  resolve_shares(q, software, plan);
  if (diagnostics.error_count() > errors_before) return std::nullopt;
  warn_about_placement(q, plan);
  return plan;
}

}  // namespace foretrain
