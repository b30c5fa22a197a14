#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "sim/config/catalogue.h"
#include "sim/config/reader.h"

namespace foretrain {

// The shape of a dense decoder-only transformer: what FLOPs, bytes and memory follow from.
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

  std::int64_t query_width() const { return heads * head_dim; }
  std::int64_t kv_width() const { return kv_heads * head_dim; }

  // Parameters, counted exactly. N = layers * layer + embedding + final norm + (untied) head.
  std::int64_t attention_matrix_parameters() const;  // Q, K, V and output projection weights of one layer
  std::int64_t mlp_matrix_parameters() const;        // of one layer
  std::int64_t layer_parameters() const;             // matrices, biases and norms of one layer
  std::int64_t embedding_parameters() const;         // token table, learned positions, norm of the embedding
  std::int64_t head_parameters() const;              // LM head matrix: V * h whether or not it is tied
  std::int64_t final_norm_parameters() const;
  std::int64_t parameters() const;
};

// Reads `model` of a scenario:
// - a name or alias of configs/models. An alias that is only a size ("7b") is noted as an assumption;
// - a path of a model file, ending in .yaml or .yml, relative to the file that names it;
// - a map (keys: configs/models/README.md).
// Features whose physics is not built (experts, latent attention, windows ...) are refused by name, all of them at
// once. A count that is more than 5 % away from a given params_b is a warning. nullopt if anything is wrong.
std::optional<Model> read_model(const config::Node& node, const std::string& models_folder, Diagnostics& diagnostics);

}  // namespace foretrain
