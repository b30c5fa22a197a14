#include "sim/model/model.h"

namespace foretrain {
namespace {

std::int64_t norm_parameters(const Model& model) { return (model.norm_biases ? 2 : 1) * model.hidden; }

std::int64_t qkv_biases(const Model& model) {
  const std::int64_t qkv = model.query_width() + 2 * model.kv_width();
  return model.linear_biases || model.qkv_bias ? qkv : 0;
}

std::int64_t mlp_biases(const Model& model, std::int64_t width) {
  return model.linear_biases ? (model.gated ? 2 : 1) * width + model.hidden : 0;
}

// Of the output projection, and of the MLP, or of every expert and the router.
std::int64_t other_biases(const Model& model, LayerKind kind) {
  if (!model.linear_biases) return 0;
  const std::int64_t experts = model.experts * (mlp_biases(model, model.expert_ffn) + 1);
  return model.hidden + (kind.experts ? experts : mlp_biases(model, model.ffn));
}

// Norms inside the attention: of compressed queries and key-values, or of every head's queries and keys.
std::int64_t attention_norms(const Model& model) {
  if (model.mla) return model.mla->q_lora + model.mla->kv_lora;
  return model.qk_norm ? 2 * model.head_dim : 0;
}

}  // namespace

LayerKind Model::layer_kind(std::int64_t layer) const {
  return {.experts = experts > 0 && layer >= first_dense_layers && (layer + 1) % moe_every == 0,
          .windowed = window > 0 && layer % window_every == 0,
          .predictor = false};
}

LayerKind Model::predictor_kind() const { return {.experts = experts > 0, .windowed = false, .predictor = true}; }

double Model::attended(std::int64_t seq, LayerKind kind) const {
  const double s = static_cast<double>(seq), w = static_cast<double>(window);
  return kind.windowed && window < seq ? w * (2.0 - w / s) : s;
}

std::int64_t Model::attention_matrix_parameters() const {
  if (!mla) return hidden * (query_width() + 2 * kv_width()) + query_width() * hidden;
  const std::int64_t queries = mla->q_lora > 0 ? mla->q_lora * (hidden + query_width()) : hidden * query_width();
  const std::int64_t keys_values =
      hidden * (mla->kv_lora + mla->qk_rope) + mla->kv_lora * heads * (mla->qk_nope + mla->v);
  return queries + keys_values + value_width() * hidden;
}

std::int64_t Model::mlp_matrix_parameters() const { return (gated ? 3 : 2) * hidden * ffn; }

std::int64_t Model::expert_matrix_parameters() const { return (gated ? 3 : 2) * hidden * expert_ffn; }

std::int64_t Model::shared_expert_parameters() const { return (gated ? 3 : 2) * hidden * shared_expert_ffn; }

std::int64_t Model::router_parameters() const { return hidden * experts; }

std::int64_t Model::layer_parameters(LayerKind kind) const {
  const std::int64_t mlp = kind.experts
                               ? experts * expert_matrix_parameters() + shared_expert_parameters() + router_parameters()
                               : mlp_matrix_parameters();
  // A prediction module: the projection of two hidden vectors to one, a norm of each and one behind the layer.
  const std::int64_t prediction = kind.predictor ? 2 * hidden * hidden + 3 * norm_parameters(*this) : 0;
  return attention_matrix_parameters() + mlp + qkv_biases(*this) + other_biases(*this, kind) + attention_norms(*this) +
         norms_per_layer * norm_parameters(*this) + prediction;
}

std::int64_t Model::predictor_parameters() const { return layer_parameters(predictor_kind()); }

std::int64_t Model::embedding_parameters() const {
  return (vocab + max_positions) * hidden + (embedding_norm ? norm_parameters(*this) : 0);
}

std::int64_t Model::head_parameters() const { return vocab * hidden; }

std::int64_t Model::final_norm_parameters() const { return norm_parameters(*this); }

std::int64_t Model::parameters() const {
  std::int64_t sum = embedding_parameters() + final_norm_parameters() + (tied_embeddings ? 0 : head_parameters()) +
                     mtp * predictor_parameters();
  for (std::int64_t layer = 0; layer < layers; ++layer) sum += layer_parameters(layer_kind(layer));
  return sum;
}

std::int64_t Model::active_parameters() const {
  std::int64_t idle = 0;
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    if (!layer_kind(layer).experts) continue;
    idle += (experts - top_k) * (expert_matrix_parameters() + mlp_biases(*this, expert_ffn));
  }
  return parameters() - mtp * predictor_parameters() - idle;
}

}  // namespace foretrain
