#include "sim/model/operators.h"

#include <algorithm>

namespace foretrain {

LayerProjections layer_projections(const Model& m, int tp) {
  const std::int64_t q = m.query_width() / tp;
  const std::int64_t kv = std::max<std::int64_t>(1, m.kv_heads / tp) * m.head_dim;
  const std::int64_t f = m.ffn / tp;
  return {
      .qkv = m.mla ? Projection{} : Projection{q + 2 * kv, m.hidden, "qkv"},
      .attention_out = {m.hidden, m.value_width() / tp, "attention output"},
      .mlp_in = {m.gated ? 2 * f : f, m.hidden, "mlp in"},
      .mlp_out = {m.hidden, f, "mlp out"},
  };
}

LatentProjections latent_projections(const Model& m, int tp) {
  const LatentAttention& a = *m.mla;
  const std::int64_t heads = m.heads / tp;
  return {
      .q_down = a.q_lora > 0 ? Projection{a.q_lora, m.hidden, "query down"} : Projection{},
      .kv_down = {a.kv_lora + a.qk_rope, m.hidden, "key-value down"},
      .q_up = {heads * m.head_dim, a.q_lora > 0 ? a.q_lora : m.hidden, "query up"},
      .kv_up = {heads * (a.qk_nope + a.v), a.kv_lora, "key-value up"},
  };
}

ExpertProjections expert_projections(const Model& m, int tp, int etp) {
  const std::int64_t wide = m.gated ? 2 : 1, width = m.expert_ffn / etp, shared = m.shared_expert_ffn / tp;
  return {
      .router = {m.experts, m.hidden, "router"},
      .expert_in = {wide * width, m.hidden, "experts in"},
      .expert_out = {m.hidden, width, "experts out"},
      .shared_in = {wide * shared, m.hidden, "shared experts in"},
      .shared_out = {m.hidden, shared, "shared experts out"},
  };
}

std::int64_t stored_vocabulary(const Model& model, int tp, bool padded) {
  if (!padded) return (model.vocab + tp - 1) / tp * tp;
  const std::int64_t unit = 128 * static_cast<std::int64_t>(tp);
  return (model.vocab + unit - 1) / unit * unit;
}

ForwardFlops forward_flops(const Model& m, double tokens, std::int64_t seq) {
  double matrices = 0, attended = 0;
  auto add = [&](LayerKind kind) {
    const std::int64_t mlp =
        kind.experts ? m.top_k * m.expert_matrix_parameters() + m.shared_expert_parameters() + m.router_parameters()
                     : m.mlp_matrix_parameters();
    const std::int64_t prediction = kind.predictor ? 2 * m.hidden * m.hidden : 0;
    matrices += static_cast<double>(m.attention_matrix_parameters() + mlp + prediction);
    attended += m.attended(seq, kind);
  };
  for (std::int64_t layer = 0; layer < m.layers; ++layer) add(m.layer_kind(layer));
  for (std::int64_t module = 0; module < m.mtp; ++module) add(m.predictor_kind());
  const double widths = static_cast<double>(m.query_width() + m.value_width());  // of QK^T and PV
  return {
      .layers = {2.0 * matrices * tokens},
      .attention_core = {2.0 * widths * attended * tokens},
      .head = {2.0 * static_cast<double>(m.head_parameters() * (1 + m.mtp)) * tokens},
  };
}

}  // namespace foretrain
