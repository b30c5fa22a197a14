#include <algorithm>
#include <cmath>

#include "sim/workload/adapter_cost.h"
#include "sim/workload/layer_parts.h"

namespace foretrain {
namespace {

using Dispatch = Software::Experts::Dispatch;

// What one rank sees of a layer's experts.
struct ExpertShape {
  double tokens = 0;  // the rank's own, of a micro-batch
  double copies = 0;  // of them, one for every expert they visit; with what comes in on the busiest rank
  double rows = 0;    // that its experts work on
  double groups = 1;  // experts it holds, or parts of experts
};

ExpertShape expert_shape(const Case& c, const RankShape& s) {
  ExpertShape e;
  e.tokens = s.tokens / s.hidden_shards;
  e.copies = e.tokens * static_cast<double>(c.model.top_k) * c.plan.expert_load();
  e.rows = e.copies * c.plan.etp;
  e.groups = static_cast<double>(c.model.experts) / c.plan.ep;
  return e;
}

bool dispatches_fp8(const Case& c) {
  return c.train.precision == Precision::fp8 && c.train.fp8.dispatch.value_or(c.software.experts.fp8_dispatch);
}

// Of an element of a copy on its way to an expert; results come back in 16 bits (DeepSeek-V3, arXiv 2412.19437, section
// 3.3.3: so do the gradients of what the experts made, and of what went to them).
double dispatched_bytes(const Case& c, const RankShape& s) {
  return dispatches_fp8(c) ? operand_bytes(Precision::fp8) + c.train.fp8.activation_scale_bytes() : s.element;
}

// One product for every expert: as one kernel, or as a library call each. Transformer Engine spreads the calls over
// streams: together they take the sum of their times on the device, or of issuing them (study of measured kernels,
// section "grouped GEMM": 7 to 12 % on B200).
KernelTime grouped_product(const Case& c, Precision precision, const Gemm& of_one, double groups) {
  const auto count = static_cast<std::int64_t>(groups);
  Gemm gemm = of_one;
  if (c.software.experts.grouped_kernel || count == 1) {
    gemm.batch = count;
    return gemm_time(c.cluster.gpu, precision, gemm);
  }
  KernelTime one = gemm_time(c.cluster.gpu, precision, gemm);
  one.latency = {0};
  KernelTime all = one * groups;
  all.latency = {std::max(0.0, groups * c.software.experts.call_us * 1e-6 - all.total().value)};
  return all;
}

// Where what a product of experts works on becomes fp8: before it, before it travels to the experts, or in the kernel
// that made it.
enum class Cast { here, before_dispatch, with_activation };

// The cast of what the products work on: one kernel, or one for every expert, which take as long to issue as products.
KernelTime grouped_cast(const Case& c, Bytes bytes, double groups) {
  if (c.software.experts.grouped_kernel || groups <= 1) return streaming_time(c.cluster.gpu, bytes, 1);
  KernelTime all = streaming_time(c.cluster.gpu, bytes, 0);
  all.latency = {std::max(0.0, groups * c.software.experts.call_us * 1e-6 - all.total().value)};
  return all;
}

// Where tokens are quantised before they travel, that is done once a token. What arrives is read and written once more
// for a recipe that wants it along columns, too.
double quantise_dispatched_bytes(const Case& c, const ExpertShape& e, Pass pass) {
  const double sent = operand_bytes(Precision::fp8) + c.train.fp8.activation_scale_bytes();
  if (c.train.fp8.recipe == Fp8::Recipe::block) return (2 + sent) * e.tokens + 2 * sent * e.rows;
  return quantise_bytes(c, pass) * e.tokens;
}

// Casts to the width of a product's input, or of its output's gradient.
KernelTime cast_time(const Case& c, const ExpertShape& e, double width, Pass pass, Cast cast) {
  if (cast == Cast::before_dispatch)
    return streaming_time(c.cluster.gpu, {quantise_dispatched_bytes(c, e, pass) * width}, 1);
  return grouped_cast(c, {quantise_bytes(c, pass) * width * e.rows}, e.groups);
}

// The linear layer of every expert of the rank, and the adapters beside it: frozen weights have no gradient, quantised
// ones are made 16 bit first.
KernelList grouped_linear(const Case& c, const RankShape& s, const ExpertShape& e, const Projection& p, Pass pass,
                          Cast cast, const std::vector<Projection>& adapters = {}) {
  const auto rows = std::max<std::int64_t>(1, static_cast<std::int64_t>(std::ceil(e.rows / e.groups)));
  KernelList list;
  if (pass != Pass::weight_gradient) {
    const Pass way = pass == Pass::forward ? Pass::forward : Pass::backward;
    const Gemm of_one =
        pass == Pass::forward ? Gemm{.m = rows, .n = p.n, .k = p.k} : Gemm{.m = rows, .n = p.k, .k = p.n};
    list += {p.name, pass == Pass::forward ? "gemm" : "input gradient", grouped_product(c, s.matmul, of_one, e.groups)};
    if (cast != Cast::with_activation && is_quantised(s.matmul)) {
      const double width = static_cast<double>(pass == Pass::forward ? p.k : p.n);
      list += {p.name, "quantise", cast_time(c, e, width, pass, cast)};
    }
    list += {p.name, "dequantise", dequantise_time(c, p, way) * e.groups};
    list += {p.name, "adapters", adapters_time(c, e.rows / e.groups, adapters, way) * e.groups};
  }
  const bool of_weight = pass == Pass::backward || pass == Pass::weight_gradient;
  if (of_weight && !c.train.peft.active()) {
    const Gemm of_one{.m = p.n, .n = p.k, .k = rows, .accumulate = true, .output_bytes = gradient_bytes(c)};
    list += {p.name, "weight gradient", grouped_product(c, s.matmul, of_one, e.groups)};
  }
  return list;
}

// Half of the passes that bring copies into the experts' order and back: those before the experts, or those behind.
// `element`: bytes of what is moved.
KernelList permutation(const Case& c, const ExpertShape& e, double element, Pass pass) {
  const Software::Experts& habits = c.software.experts;
  const double passes = pass == Pass::forward ? habits.permute_forward : habits.permute_backward;
  const double kernels = pass == Pass::forward ? habits.kernels_forward : habits.kernels_backward;
  const double bytes = e.copies * static_cast<double>(c.model.hidden) * element;
  return {"tokens", "permutation",
          streaming_time(c.cluster.gpu, {0.5 * passes * bytes / habits.permute_efficiency}, 0.5 * kernels)};
}

// Router: one narrow product, and a few passes over the scores of all experts in fp32.
KernelList router(const Case& c, const RankShape& s, const ExpertShape& e, const Projection& p, Pass pass) {
  const double scores = e.tokens * static_cast<double>(c.model.experts) * 4.0;
  RankShape plain = s;
  plain.matmul = s.rest;
  const KernelTime passes = streaming_time(c.cluster.gpu, {(pass == Pass::forward ? 6.0 : 8.0) * scores}, 0);
  return linear_pass(c, plain, p, e.tokens, pass) + KernelList{p.name, "scores", passes};
}

// The activation between the two products, of experts and shared experts alike, in the passes of the profile.
KernelList activation(const Case& c, const RankShape& s, double elements, Pass pass) {
  const double passes = pass == Pass::forward ? c.software.forward.ffn : c.software.backward.ffn;
  return {"experts", "activation", streaming_time(c.cluster.gpu, {s.element * passes * elements}, 0)};
}

KernelList biases(const Case& c, const RankShape& s, const ExpertShape& e, Pass pass) {
  const Software::Experts& habits = c.software.experts;
  if (!c.model.linear_biases || habits.fused_activation) return {};
  const double passes = pass == Pass::forward ? habits.bias_forward : habits.bias_backward;
  const double bytes = s.element * passes * e.rows * static_cast<double>(c.model.hidden);
  return {"experts", "biases", streaming_time(c.cluster.gpu, {bytes}, 0)};
}

struct Exchanges {
  std::vector<LayerStep> out, back;  // copies to the experts, and results back
};

// What carries the copies: the exchange over the expert-parallel ranks, and the tokens' way to all ranks that split an
// expert. `beside`: time of kernels that both exchanges may run beside.
Exchanges exchanges(const Case& c, const RankShape& s, const ExpertShape& e, Seconds beside) {
  const Software::Experts& habits = c.software.experts;
  const auto hidden = static_cast<double>(c.model.hidden);
  const bool hides = beside.value > 0;
  const double least = hides ? habits.overlap_exposed : 1.0;
  auto step = [&](Purpose purpose, Collective op, double bytes) {
    return LayerStep{{}, LayerStep::GroupCollective{purpose, op, {bytes}, least, beside}};
  };
  Exchanges x;
  const bool gathers = c.plan.expert_dispatch == Dispatch::all_gather;
  const double elements = (gathers ? e.tokens * c.plan.ep : e.copies) * hidden;
  const double sent = elements * dispatched_bytes(c, s), returned = elements * s.element;
  if (c.plan.ep > 1) {
    x.out.push_back(step(Purpose::expert, gathers ? Collective::all_gather : Collective::all_to_all, sent));
    x.back.push_back(step(Purpose::expert, gathers ? Collective::reduce_scatter : Collective::all_to_all, returned));
  }
  if (c.plan.etp > 1) {
    x.out.push_back(step(Purpose::expert_tensor, Collective::all_gather, sent * c.plan.etp));
    x.back.insert(x.back.begin(), step(Purpose::expert_tensor, Collective::reduce_scatter, returned * c.plan.etp));
  }
  return x;
}

KernelList expert_products(const Case& c, const RankShape& s, const ExpertShape& e, const ExpertProjections& p,
                           LayerKind kind, Pass pass) {
  const LayerAdapters adapters = adapters_of_layer(c, kind);
  const Cast outside = dispatches_fp8(c) ? Cast::before_dispatch : Cast::here;
  const Cast inside = c.software.experts.fused_activation ? Cast::with_activation : Cast::here;
  const bool forward = pass == Pass::forward;
  return grouped_linear(c, s, e, p.expert_in, pass, forward ? outside : inside, adapters.expert_in) +
         grouped_linear(c, s, e, p.expert_out, pass, forward ? inside : outside, adapters.expert_out);
}

}  // namespace

KernelList expert_activation(const Case& c, const RankShape& s, Pass pass) {
  if (c.software.experts.fused_activation) return {};
  const auto width = static_cast<double>(expert_projections(c.model, c.plan.tp, c.plan.etp).expert_out.k);
  return activation(c, s, expert_shape(c, s).rows * width, pass);
}

KernelList shared_experts(const Case& c, const RankShape& s, LayerKind kind, Pass pass) {
  if (c.model.shared_expert_ffn == 0) return {};
  const ExpertProjections p = expert_projections(c.model, c.plan.tp, c.plan.etp);
  const LayerAdapters adapters = adapters_of_layer(c, kind);
  const KernelList products = linear_pass(c, s, p.shared_in, s.tokens, pass, adapters.mlp_in) +
                              linear_pass(c, s, p.shared_out, s.tokens, pass, adapters.mlp_out);
  if (pass == Pass::weight_gradient) return products;
  return products + activation(c, s, s.tokens * static_cast<double>(p.shared_out.k), pass);
}

void add_experts(BlockPass& block, const Case& c, const RankShape& s, LayerKind kind, Pass pass,
                 const KernelList& norms, Seconds attention) {
  const ExpertShape e = expert_shape(c, s);
  const ExpertProjections p = expert_projections(c.model, c.plan.tp, c.plan.etp);
  const auto hidden = static_cast<double>(c.model.hidden);
  const Software::Experts& habits = c.software.experts;
  if (pass == Pass::weight_gradient) {
    RankShape plain = s;
    plain.matmul = s.rest;
    const KernelList products = expert_products(c, s, e, p, kind, pass) +
                                linear_pass(c, plain, p.router, e.tokens, pass) + shared_experts(c, s, kind, pass);
    block = block + BlockPass{{{products, {}}}, {0}, {0}};
    return;
  }

  const KernelList experts =
      expert_products(c, s, e, p, kind, pass) + expert_activation(c, s, pass) + biases(c, s, e, pass);
  const KernelList shared = shared_experts(c, s, kind, pass);
  const KernelList first = permutation(c, e, dispatched_bytes(c, s), pass);
  const KernelList last = permutation(c, e, s.element, pass), score = router(c, s, e, p.router, pass);

  // Two exchanges share what they may run beside: the shared experts, or all kernels of another micro-batch's layer.
  Seconds beside{0};
  if (habits.shared_overlap) beside = shared.total() * 0.5;
  if (c.plan.overlap.ep) {
    beside = (attention + experts.total() + shared.total() + first.total() + last.total() + norms.total()) * 0.5;
  }
  const Exchanges x = exchanges(c, s, e, beside);

  BlockPass mixture;
  auto add = [&](std::vector<LayerStep> steps) { mixture = mixture + BlockPass{std::move(steps), {0}, {0}}; };
  add({{norms + score + first, {}}});
  add(x.out);
  add({{experts, {}}});
  add(x.back);
  add({{last, {}}});
  if (c.plan.expert_capacity == 0) mixture.stall = {habits.stall_ms * 1e-3};
  block = block + mixture;
  if (c.model.shared_expert_ffn > 0) add_region(block, c, s, {{shared, {}}}, {0}, hidden);
}

}  // namespace foretrain
