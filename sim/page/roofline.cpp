#include "sim/page/roofline.h"

#include <algorithm>
#include <cmath>

#include "sim/model/operators.h"

namespace foretrain::page {
namespace {

class Points {
 public:
  explicit Points(const Case& subject) : c_(subject) {}

  // y = x W over `rows` rows, in `groups` copies (experts), and the two products of its backward pass.
  void linear(const char* name, const Projection& p, double rows, Precision precision, double groups = 1) {
    const auto m = static_cast<std::int64_t>(std::ceil(rows));
    const auto batch = static_cast<std::int64_t>(std::max(1.0, groups));
    if (p.n == 0 || p.k == 0 || m == 0) return;
    product(name, Pass::forward, precision, {.batch = batch, .m = m, .n = p.n, .k = p.k});
    product(name, Pass::input_gradient, precision, {.batch = batch, .m = m, .n = p.k, .k = p.n});
    if (c_.train.peft.active()) return;  // frozen weights have no gradient
    product(name, Pass::weight_gradient, precision, {.batch = batch, .m = p.n, .n = p.k, .k = m, .accumulate = true});
  }

  void attention(Precision precision) {
    const bool flash = c_.train.attention != AttentionKernel::standard;
    const AttentionShape shape{.batch = c_.plan.micro_batch,
                               .heads = std::max<std::int64_t>(1, c_.model.heads / c_.plan.tp),
                               .head_dim = c_.model.head_dim,
                               .seq = c_.train.seq_len,
                               .value_dim = c_.model.value_dim()};
    const auto s = static_cast<double>(shape.seq);
    const double rows = static_cast<double>(shape.batch * shape.heads) * s / c_.plan.cp;
    const double width = static_cast<double>(shape.head_dim + c_.model.value_dim());
    // Of a causal square flash kernels do half. Backward: five products for forward's two (FlashAttention-2, arXiv
    // 2307.08691, section 4); four without recomputing the scores.
    const double forward_flops = 2.0 * rows * s * width * (flash ? 0.5 : 1.0);
    const double element = element_bytes(precision);
    // Queries, keys, values and output; unfused kernels also write and read the scores twice.
    const double forward_bytes = element * (2.0 * rows * width + (flash ? 0.0 : 4.0 * rows * s));
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      const bool forward = pass == Pass::forward;
      const KernelTime time =
          flash ? flash_attention_time(c_.cluster.gpu, precision, c_.train.attention, shape, pass)
                : standard_attention_time(c_.cluster.gpu, precision, shape, pass, c_.software.fused_softmax);
      points.push_back({"attention", pass,
                        forward_flops * (forward ? 1.0
                                         : flash ? 2.5
                                                 : 2.0),
                        forward_bytes * (forward ? 1.0 : 2.0), time.total() / c_.plan.cp});
    }
  }

  std::vector<OperatorPoint> points;

 private:
  void product(const char* name, Pass pass, Precision precision, const Gemm& g) {
    const auto m = static_cast<double>(g.m), n = static_cast<double>(g.n), k = static_cast<double>(g.k);
    const auto batch = static_cast<double>(g.batch);
    const double element = operand_bytes(precision);
    const double operands = element * (m * k + k * n) + std::max(2.0, element) * m * n * (g.accumulate ? 2.0 : 1.0);
    const KernelTime time = gemm_time(c_.cluster.gpu, precision, g);
    points.push_back({name, pass, 2.0 * batch * m * n * k, batch * operands, time.total()});
  }

  const Case& c_;
};

void add_experts(Points& points, const Case& c, double tokens, Precision layers, Precision rest) {
  const ExpertProjections p = expert_projections(c.model, c.plan.tp, c.plan.etp);
  const double own = tokens / (c.plan.sequence_parallel ? c.plan.tp : 1);
  const double experts = std::max(1.0, static_cast<double>(c.model.experts) / c.plan.ep);
  const double rows = own * static_cast<double>(c.model.top_k) * c.plan.expert_imbalance * c.plan.etp / experts;
  points.linear("router", p.router, own, rest);
  points.linear("expert_in", p.expert_in, rows, layers, experts);
  points.linear("expert_out", p.expert_out, rows, layers, experts);
  points.linear("shared_in", p.shared_in, tokens, layers);
  points.linear("shared_out", p.shared_out, tokens, layers);
}

}  // namespace

std::vector<OperatorPoint> operator_points(const Case& c) {
  const Model& m = c.model;
  const double tokens = static_cast<double>(c.plan.micro_batch * c.train.seq_len) / c.plan.cp;
  const Precision layers = c.train.precision, rest = unquantised(layers);
  Points points(c);
  const LayerProjections p = layer_projections(m, c.plan.tp);
  if (m.mla) {
    const LatentProjections latent = latent_projections(m, c.plan.tp);
    const double part = tokens / (c.plan.sequence_parallel ? c.plan.tp : 1);
    points.linear("q_down", latent.q_down, part, layers);
    points.linear("kv_down", latent.kv_down, part, layers);
    points.linear("q_up", latent.q_up, tokens, layers);
    points.linear("kv_up", latent.kv_up, tokens, layers);
  } else {
    points.linear("qkv", p.qkv, tokens, layers);
  }
  points.attention(rest);
  points.linear("attention_out", p.attention_out, tokens, layers);
  bool dense = false, experts = false;
  for (std::int64_t layer = 0; layer < m.layers; ++layer) {
    (m.layer_kind(layer).experts ? experts : dense) = true;
  }
  if (dense) {
    points.linear("mlp_in", p.mlp_in, tokens, layers);
    points.linear("mlp_out", p.mlp_out, tokens, layers);
  }
  if (experts) add_experts(points, c, tokens, layers, rest);
  const std::int64_t vocabulary = stored_vocabulary(m, c.plan.tp, c.software.pads_vocabulary);
  points.linear("head", {vocabulary / c.plan.tp, m.hidden}, tokens, rest);
  return points.points;
}

}  // namespace foretrain::page
