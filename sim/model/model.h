#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "sim/config/catalogue.h"
#include "sim/config/reader.h"

namespace foretrain {

// Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434): queries and key-values pass through narrow projections.
// A head's queries and keys have qk_nope + qk_rope elements, its values v.
struct LatentAttention {
  std::int64_t q_lora = 0;  // width of the compressed queries; 0 = not compressed
  std::int64_t kv_lora = 0, qk_nope = 0, qk_rope = 0, v = 0;
};

// How a layer differs from others of its model.
struct LayerKind {
  bool experts = false;    // a mixture of experts instead of one MLP
  bool windowed = false;   // attention looks back no further than the window
  bool predictor = false;  // a multi-token-prediction module: a layer behind a projection of two hidden vectors to one

  static constexpr int kCount = 8;
  int index() const { return (experts ? 1 : 0) + (windowed ? 2 : 0) + (predictor ? 4 : 0); }
  bool operator==(const LayerKind&) const = default;
};

// The shape of a decoder-only transformer: what FLOPs, bytes and memory follow from.
struct Model {
  enum class Family {
    gpt,    // LayerNorm, biases, learned positions, GELU, dropout
    llama,  // RMSNorm, no biases, rotary positions, no dropout
  };

  std::string name;  // catalogue name, or "inline"
  Family family = Family::llama;
  std::int64_t layers = 0;
  std::int64_t hidden = 0;         // h
  std::int64_t heads = 0;          // a, query heads
  std::int64_t kv_heads = 0;       // k; equals heads without grouped-query attention
  std::int64_t head_dim = 0;       // d
  std::int64_t ffn = 0;            // f
  bool gated = true;               // SwiGLU/GeGLU: three matrices instead of two
  std::int64_t vocab = 0;          // V
  std::int64_t max_positions = 0;  // rows of a learned position table (gpt family), 0 = none
  bool tied_embeddings = false;    // the LM head is the token table
  bool qkv_bias = false;           // biases on Q, K and V only (Qwen)
  bool parallel_block = false;     // attention and MLP side by side from the same input (GPT-J, Pythia, Falcon)

  // Details that move the parameter count by less than a per mille.
  bool linear_biases = false;        // on every linear layer of the block; default of the gpt family
  bool norm_biases = false;          // LayerNorm (weight and bias) instead of RMSNorm; default of the gpt family
  std::int64_t norms_per_layer = 2;  // 1 where a parallel block shares its norm (GPT-J, Falcon 7B)
  bool embedding_norm = false;       // a norm after the token table (BLOOM)
  bool qk_norm = false;              // a norm of every head's queries and keys (Qwen3)

  // Mixture of experts: a router sends every token to top_k of the experts of its layer.
  std::int64_t experts = 0;  // of one layer; 0 = a dense model
  std::int64_t top_k = 0;    // experts that a token visits
  // The experts lie in so many groups, of which a token visits no more than top_k_groups: DeepSeek-V3 lays a group on
  // a node, so that a token crosses the network at most so many times (arXiv 2412.19437, section 2.1.2).
  std::int64_t expert_groups = 1, top_k_groups = 1;
  std::int64_t expert_ffn = 0;         // width of one expert
  std::int64_t shared_expert_ffn = 0;  // width of all shared experts together, which every token visits
  std::int64_t moe_every = 1;          // every so-many-th layer has experts, the last of each group (Llama 4: 2)
  std::int64_t first_dense_layers = 0;

  std::optional<LatentAttention> mla = {};  // head_dim is then qk_nope + qk_rope, and kv_heads equals heads
  std::int64_t mtp = 0;                     // multi-token-prediction modules behind the last layer (DeepSeek-V3)
  std::int64_t window = 0;                  // keys a token sees in windowed layers, itself included; 0 = all
  std::int64_t window_every = 1;            // every so-many-th layer is windowed, the first of each group

  std::int64_t query_width() const { return heads * head_dim; }
  std::int64_t kv_width() const { return kv_heads * head_dim; }
  std::int64_t value_dim() const { return mla ? mla->v : head_dim; }
  std::int64_t value_width() const { return heads * value_dim(); }  // of the attention's output
  LayerKind layer_kind(std::int64_t layer) const;                   // of the layers, counted from 0
  LayerKind predictor_kind() const;                                 // of the multi-token-prediction modules
  // Keys that a query meets on average, twice over: seq without a window (the full square, half of which is masked),
  // and what is left of it with one.
  double attended(std::int64_t seq, LayerKind kind) const;

  // Parameters, counted exactly. N = sum of layers + embedding + final norm + (untied) head + prediction modules.
  std::int64_t attention_matrix_parameters() const;          // Q, K, V and output projection weights of one layer
  std::int64_t mlp_matrix_parameters() const;                // of one dense layer
  std::int64_t expert_matrix_parameters() const;             // of one expert
  std::int64_t shared_expert_parameters() const;             // of one layer
  std::int64_t router_parameters() const;                    // of one layer
  std::int64_t layer_parameters(LayerKind kind = {}) const;  // matrices, biases and norms of one layer
  std::int64_t predictor_parameters() const;  // of one multi-token-prediction module, its embedding and head shared
  std::int64_t active_parameters() const;     // those that one token meets: top_k of the experts; without predictors
  std::int64_t embedding_parameters() const;  // token table, learned positions, norm of the embedding
  std::int64_t head_parameters() const;       // LM head matrix: V * h whether or not it is tied
  std::int64_t final_norm_parameters() const;
  std::int64_t parameters() const;
};

// Reads `model` of a scenario:
// - a name or alias of configs/models. An alias that is only a size ("7b") is noted as an assumption;
// - a path of a model file, ending in .yaml or .yml, or of a config.json of Hugging Face, relative to the file that
// names it;
// - a map (keys: configs/models/README.md), or {hf: config.json or its folder} with keys that win over it.
// Features whose physics is not built (encoders) are refused by name, all of them at once. A count that is more than 5
// % away from a given params_b is a warning. nullopt if anything is wrong.
std::optional<Model> read_model(const config::Node& node, const std::string& models_folder, Diagnostics& diagnostics);

}  // namespace foretrain
