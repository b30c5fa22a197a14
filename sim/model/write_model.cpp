#include "sim/model/write_model.h"

#include <fmt/format.h>

#include "sim/config/write.h"

namespace foretrain {

config::Node write_model(const Model& m) {
  config::Node map = config::empty_map();
  const auto put = [&](const char* key, const std::string& text) {
    config::set_entry(map, key, config::Node{{}, text, false});
  };
  const auto number = [&](const char* key, std::int64_t value) { put(key, fmt::format("{}", value)); };
  const auto flag = [&](const char* key, bool value) { put(key, value ? "true" : "false"); };
  const bool gpt = m.family == Model::Family::gpt;
  config::set_entry(map, "name", config::Node{{}, m.name, true});
  put("arch", gpt ? "gpt" : m.experts > 0 ? "moe" : "llama");
  number("layers", m.layers);
  number("hidden", m.hidden);
  number("heads", m.heads);
  if (!m.mla) {
    number("kv_heads", m.kv_heads);
    number("head_dim", m.head_dim);
  }
  number("ffn", m.ffn);
  flag("gated", m.gated);
  number("vocab", m.vocab);
  if (m.max_positions > 0) number("max_positions", m.max_positions);
  flag("tied_embeddings", m.tied_embeddings);
  if (m.qkv_bias) flag("qkv_bias", true);
  if (m.parallel_block) flag("parallel_block", true);
  if (m.linear_biases != gpt) flag("linear_biases", m.linear_biases);
  if (m.norm_biases != gpt) flag("norm_biases", m.norm_biases);
  if (m.norms_per_layer != (m.parallel_block ? 1 : 2)) number("norms_per_layer", m.norms_per_layer);
  if (m.embedding_norm) flag("embedding_norm", true);
  if (m.qk_norm) flag("qk_norm", true);
  if (m.experts > 0) {
    number("experts", m.experts);
    number("top_k", m.top_k);
    if (m.top_k_groups < m.expert_groups) {
      number("expert_groups", m.expert_groups);
      number("top_k_groups", m.top_k_groups);
    }
    number("expert_ffn", m.expert_ffn);
    if (m.shared_expert_ffn > 0) number("shared_expert_ffn", m.shared_expert_ffn);
    if (m.moe_every > 1) number("moe_every", m.moe_every);
    if (m.first_dense_layers > 0) number("first_dense_layers", m.first_dense_layers);
  }
  if (m.mla) {
    config::Node latent = config::empty_map();
    const auto latent_number = [&](const char* key, std::int64_t value) {
      config::set_entry(latent, key, config::Node{{}, fmt::format("{}", value), false});
    };
    if (m.mla->q_lora > 0) latent_number("q_lora", m.mla->q_lora);
    latent_number("kv_lora", m.mla->kv_lora);
    latent_number("qk_nope", m.mla->qk_nope);
    latent_number("qk_rope", m.mla->qk_rope);
    latent_number("v", m.mla->v);
    config::set_entry(map, "mla", std::move(latent));
  }
  if (m.mtp > 0) number("mtp", m.mtp);
  if (m.window > 0) {
    number("window", m.window);
    if (m.window_every > 1) number("window_every", m.window_every);
  }
  return map;
}

}  // namespace foretrain
