#include "sim/model/operators.h"

#include <algorithm>

namespace foretrain {

LayerProjections layer_projections(const Model& m, int tp) {
  const std::int64_t q = m.query_width() / tp;
  const std::int64_t kv = std::max<std::int64_t>(1, m.kv_heads / tp) * m.head_dim;
  const std::int64_t f = m.ffn / tp;
  return {
      .qkv = {q + 2 * kv, m.hidden},
      .attention_out = {m.hidden, q},
      .mlp_in = {m.gated ? 2 * f : f, m.hidden},
      .mlp_out = {m.hidden, f},
  };
}

std::int64_t stored_vocabulary(const Model& model, int tp, bool padded) {
  if (!padded) return (model.vocab + tp - 1) / tp * tp;
  const std::int64_t unit = 128 * static_cast<std::int64_t>(tp);
  return (model.vocab + unit - 1) / unit * unit;
}

ForwardFlops forward_flops(const Model& m, double tokens, std::int64_t seq) {
  const double layers = static_cast<double>(m.layers);
  const double matrices = static_cast<double>(m.attention_matrix_parameters() + m.mlp_matrix_parameters());
  return {
      .layers = {2.0 * matrices * layers * tokens},
      .attention_core = {4.0 * static_cast<double>(m.query_width()) * static_cast<double>(seq) * layers * tokens},
      .head = {2.0 * static_cast<double>(m.head_parameters()) * tokens},
  };
}

}  // namespace foretrain
