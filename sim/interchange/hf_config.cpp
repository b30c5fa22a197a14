// The keys and their defaults are those of the configuration classes in huggingface/transformers,
// src/transformers/models/*/configuration_*.py; how each family is built is in modeling_*.py beside them.
#include "sim/interchange/hf_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "sim/config/quote.h"
#include "sim/config/reader.h"
#include "sim/config/write.h"

namespace foretrain {
namespace {

using config::Node;

// A configuration on its way to a model.
class Translation {
 public:
  Translation(const Node& config, Diagnostics& diagnostics)
      : config_(config), diagnostics_(diagnostics), model_(config::empty_map(config.position)) {}

  const Node* find(std::string_view key) const { return present(config_.find(key)); }
  bool is_true(std::string_view key, bool fallback = false) const {
    const Node* value = find(key);
    return value != nullptr && value->is_scalar() ? value->scalar() == "true" : fallback;
  }
  std::optional<double> number(std::string_view key) const {
    const Node* value = find(key);
    Message why_not;
    return value != nullptr && value->is_scalar() ? config::parse_number(value->scalar(), config::Unit::count, why_not)
                                                  : std::nullopt;
  }

  // Ours from the first of these keys that is there; the reader of models checks the value.
  bool take(const char* ours, std::initializer_list<const char*> theirs) {
    for (const char* key : theirs) {
      if (const Node* value = find(key)) {
        config::set_entry(model_, ours, *value);
        return true;
      }
    }
    return false;
  }
  void need(const char* ours, std::initializer_list<const char*> theirs) {
    if (!take(ours, theirs)) missing(*theirs.begin());
  }
  void put(const char* ours, const char* text) { config::set_entry(model_, ours, Node{config_.position, text, false}); }
  void put(const char* ours, Node value) { config::set_entry(model_, ours, std::move(value)); }
  void put(const char* ours, bool value) { put(ours, value ? "true" : "false"); }
  void put(const char* ours, double value) { put(ours, fmt::format("{:.0f}", value).c_str()); }

  void missing(const char* key) {
    diagnostics_.error(config_.position, message("{} is missing; is this a whole config.json?", key));
  }
  void unsupported(std::string_view key, const Message& what) {
    const Node* value = config_.find(key);
    diagnostics_.unsupported(value != nullptr ? value->position : config_.position, message("model.hf: {}", what));
  }
  void note(const Message& message) { diagnostics_.note(config_.position, message); }
  Node take_model() { return std::move(model_); }

 private:
  const Node& config_;
  Diagnostics& diagnostics_;
  Node model_;
};

void usual_shape(Translation& t) {
  t.need("layers", {"num_hidden_layers", "n_layer"});
  t.need("hidden", {"hidden_size", "n_embd", "n_embed"});
  t.need("heads", {"num_attention_heads", "n_head"});
  t.need("vocab", {"vocab_size"});
}

void ties(Translation& t, bool fallback) { t.put("tied_embeddings", t.is_true("tie_word_embeddings", fallback)); }

// RMSNorm, rotary positions, a gated MLP.
void llama_shape(Translation& t) {
  usual_shape(t);
  t.take("kv_heads", {"num_key_value_heads"});
  t.take("head_dim", {"head_dim"});
  ties(t, false);
}

void llama(Translation& t) {
  t.put("arch", "llama");
  llama_shape(t);
  t.need("ffn", {"intermediate_size"});
  if (t.is_true("attention_bias")) t.put("qkv_bias", true);
}

void mistral(Translation& t) {
  llama(t);
  t.take("window", {"sliding_window"});
}

void qwen2(Translation& t) {
  llama(t);
  t.put("qkv_bias", true);
  if (t.is_true("use_sliding_window"))
    t.unsupported("use_sliding_window", message("a window from layer max_window_layers on"));
}

void qwen3(Translation& t) {
  llama(t);
  t.put("qk_norm", true);
  if (t.is_true("use_sliding_window"))
    t.unsupported("use_sliding_window", message("a window from layer max_window_layers on"));
}

void gemma(Translation& t) {
  llama(t);
  ties(t, true);
}

void mixtral(Translation& t) {
  t.put("arch", "moe");
  llama_shape(t);
  t.need("experts", {"num_local_experts"});
  t.need("top_k", {"num_experts_per_tok"});
  t.need("expert_ffn", {"intermediate_size"});
  t.take("window", {"sliding_window"});
}

void qwen_experts(Translation& t) {
  t.put("arch", "moe");
  llama_shape(t);
  t.need("experts", {"num_experts"});
  t.need("top_k", {"num_experts_per_tok"});
  t.need("expert_ffn", {"moe_intermediate_size"});
  if (t.number("decoder_sparse_step").value_or(1) > 1) t.need("ffn", {"intermediate_size"});  // of the layers without
  t.take("shared_expert_ffn", {"shared_expert_intermediate_size"});
  t.take("moe_every", {"decoder_sparse_step"});
  const Node* dense = t.find("mlp_only_layers");
  if (dense != nullptr && dense->is_sequence() && !dense->sequence().empty()) {
    t.unsupported("mlp_only_layers", message("layers without experts at given places"));
  }
}

void qwen2_moe(Translation& t) {
  qwen_experts(t);
  t.put("qkv_bias", true);
}

void qwen3_moe(Translation& t) {
  qwen_experts(t);
  t.put("qk_norm", true);
}

void deepseek(Translation& t) {
  t.put("arch", "moe");
  usual_shape(t);
  ties(t, false);
  t.need("ffn", {"intermediate_size"});
  Node latent = config::empty_map();
  const std::array<std::pair<const char*, const char*>, 5> keys = {{{"q_lora", "q_lora_rank"},
                                                                    {"kv_lora", "kv_lora_rank"},
                                                                    {"qk_nope", "qk_nope_head_dim"},
                                                                    {"qk_rope", "qk_rope_head_dim"},
                                                                    {"v", "v_head_dim"}}};
  for (const auto& [ours, theirs] : keys) {
    if (const Node* value = t.find(theirs)) config::set_entry(latent, ours, *value);
  }
  if (latent.find("kv_lora") == nullptr) t.missing("kv_lora_rank");
  t.put("mla", std::move(latent));
  t.need("experts", {"n_routed_experts"});
  t.need("top_k", {"num_experts_per_tok"});
  t.take("expert_groups", {"n_group"});
  t.take("top_k_groups", {"topk_group"});
  t.need("expert_ffn", {"moe_intermediate_size"});
  const auto shared = t.number("n_shared_experts"), width = t.number("moe_intermediate_size");
  if (shared && width) t.put("shared_expert_ffn", *shared * *width);
  t.take("first_dense_layers", {"first_k_dense_replace"});
  t.take("moe_every", {"moe_layer_freq"});
  if (t.number("num_nextn_predict_layers").value_or(0) > 0) {
    t.note(
        message("the prediction modules of num_nextn_predict_layers are left out; write mtp beside hf to train them"));
  }
}

void gpt_oss(Translation& t) {
  t.put("arch", "moe");
  llama_shape(t);
  t.put("linear_biases", t.is_true("attention_bias", true));
  t.need("experts", {"num_local_experts"});
  t.need("top_k", {"num_experts_per_tok", "experts_per_token"});
  t.need("expert_ffn", {"intermediate_size"});
  t.take("window", {"sliding_window"});
  if (t.find("sliding_window") != nullptr) t.put("window_every", "2");
}

// LayerNorm, biases, an MLP of two matrices.
void gpt_shape(Translation& t, bool tied) {
  t.put("arch", "gpt");
  usual_shape(t);
  ties(t, tied);
}

void gpt2(Translation& t) {
  gpt_shape(t, true);
  t.take("ffn", {"n_inner"});
  t.take("max_positions", {"n_positions", "n_ctx"});
}

void gpt_neox(Translation& t) {
  gpt_shape(t, false);
  t.need("ffn", {"intermediate_size"});
  const bool parallel = t.is_true("use_parallel_residual", true);
  t.put("parallel_block", parallel);
  if (parallel) t.put("norms_per_layer", "2");
}

void bloom(Translation& t) {
  gpt_shape(t, true);
  t.put("embedding_norm", true);
}

void opt(Translation& t) {
  gpt_shape(t, true);
  t.need("ffn", {"ffn_dim"});
  t.take("max_positions", {"max_position_embeddings"});
  const auto table = t.number("word_embed_proj_dim"), hidden = t.number("hidden_size");
  if (table && hidden && *table != *hidden)
    t.unsupported("word_embed_proj_dim", message("a token table of another width"));
  if (!t.is_true("do_layer_norm_before", true))
    t.unsupported("do_layer_norm_before", message("norms after the blocks"));
}

void falcon(Translation& t) {
  t.put("arch", "llama");
  usual_shape(t);
  ties(t, true);
  t.put("gated", false);
  t.put("norm_biases", true);
  const bool newer = t.is_true("new_decoder_architecture");
  const bool parallel = newer || t.is_true("parallel_attn", true);
  t.put("parallel_block", parallel);
  if (parallel) t.put("norms_per_layer", newer ? "2" : "1");
  if (newer) {
    t.need("kv_heads", {"num_kv_heads", "n_head_kv"});
  } else if (t.is_true("multi_query", true)) {
    t.put("kv_heads", "1");
  }
  if (t.is_true("bias")) t.put("linear_biases", true);
  if (!t.take("ffn", {"ffn_hidden_size"})) t.put("ffn", 4 * t.number("hidden_size").value_or(0));
}

struct Family {
  const char* model_type;
  void (*translate)(Translation&);
};
constexpr std::array<Family, 17> kFamilies = {{
    {"llama", llama},
    {"mistral", mistral},
    {"qwen2", qwen2},
    {"qwen3", qwen3},
    {"gemma", gemma},
    {"mixtral", mixtral},
    {"qwen2_moe", qwen2_moe},
    {"qwen3_moe", qwen3_moe},
    {"gpt_oss", gpt_oss},
    {"deepseek_v2", deepseek},
    {"deepseek_v3", deepseek},
    {"kimi_k2", deepseek},
    {"gpt2", gpt2},
    {"gpt_neox", gpt_neox},
    {"bloom", bloom},
    {"opt", opt},
    {"falcon", falcon},
}};

}  // namespace

std::vector<std::string> hf_families() {
  std::vector<std::string> names;
  for (const Family& family : kFamilies) names.emplace_back(family.model_type);
  return names;
}

std::optional<Node> model_of_hf_config(const Node& config, Diagnostics& diagnostics) {
  const int errors_before = diagnostics.error_count();
  config::MapReader reader(config, diagnostics, "config");
  const std::string type = reader.required_text("model_type");
  if (diagnostics.error_count() > errors_before) return std::nullopt;
  const auto family =
      std::find_if(kFamilies.begin(), kFamilies.end(), [&](const Family& f) { return type == f.model_type; });
  if (family == kFamilies.end()) {
    const std::vector<std::string> known = hf_families();
    diagnostics.error(reader.position_of("model_type"),
                      message("model_type {} is not known{}; known are {}; describe others by a model map",
                              config::in_quotes(type), did_you_mean(type, known), fmt::join(known, ", ")));
    return std::nullopt;
  }
  Translation translation(config, diagnostics);
  family->translate(translation);
  if (diagnostics.error_count() > errors_before) return std::nullopt;
  return translation.take_model();
}

}  // namespace foretrain
