#include "sim/model/model.h"

namespace foretrain {
namespace {

std::int64_t norm_parameters(const Model& model) { return (model.norm_biases ? 2 : 1) * model.hidden; }

std::int64_t layer_bias_parameters(const Model& model) {
  const std::int64_t qkv = model.query_width() + 2 * model.kv_width();
  const std::int64_t up = (model.gated ? 2 : 1) * model.ffn;
  if (model.linear_biases) return qkv + model.hidden + up + model.hidden;
  return model.qkv_bias ? qkv : 0;
}

}  // namespace

std::int64_t Model::attention_matrix_parameters() const {
  return hidden * (query_width() + 2 * kv_width()) + query_width() * hidden;
}

std::int64_t Model::mlp_matrix_parameters() const { return (gated ? 3 : 2) * hidden * ffn; }

std::int64_t Model::layer_parameters() const {
  return attention_matrix_parameters() + mlp_matrix_parameters() + layer_bias_parameters(*this) +
         norms_per_layer * norm_parameters(*this);
}

std::int64_t Model::embedding_parameters() const {
  return (vocab + max_positions) * hidden + (embedding_norm ? norm_parameters(*this) : 0);
}

std::int64_t Model::head_parameters() const { return vocab * hidden; }

std::int64_t Model::final_norm_parameters() const { return norm_parameters(*this); }

std::int64_t Model::parameters() const {
  return layers * layer_parameters() + embedding_parameters() + final_norm_parameters() +
         (tied_embeddings ? 0 : head_parameters());
}

}  // namespace foretrain
