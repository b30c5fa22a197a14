#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "sim/config/tree.h"
#include "sim/model/operators.h"

namespace foretrain {

class Diagnostics;

// How frozen weights are stored, and what it takes to use them.
struct WeightFormat {
  const char* name;
  double stored_bytes;    // of a weight, without its constants
  double constant_bytes;  // scales and zero points of blocks, a weight
  // Bytes that the kernels move to make 16-bit weights of them, a weight: to be divided by the bandwidth of a streaming
  // kernel. Kernels that reach less of it count more.
  double dequantise_bytes;
  double kernels;  // launches a matrix
  // The 16-bit weights are kept for the backward pass by the framework's autograd, which then need not make them again.
  bool kept_for_backward;
};

// nf4, nf4-dq, gptq (or int4), int8; nullptr for any other name.
const WeightFormat* weight_format(std::string_view name);

// Adapters beside frozen weights (LoRA, arXiv 2106.09685), and frozen weights that are quantised (QLoRA, 2305.14314).
struct Peft {
  enum class Kind : std::uint8_t { none, lora, qlora } kind = Kind::none;
  std::int64_t rank = 16;
  double dropout = 0;  // on the adapters' input
  // Linear layers that have an adapter.
  struct Targets {
    bool q = true, k = true, v = true, o = true, gate = true, up = true, down = true;
    bool any() const { return q || k || v || o || gate || up || down; }
  } targets;
  const WeightFormat* format = nullptr;  // of the frozen weights of transformer layers; nullptr: 16-bit
  // Trained in full beside the adapters; the frozen originals stay.
  bool full_embedding = false, full_head = false;

  bool active() const { return kind != Kind::none; }
};
const char* to_string(Peft::Kind kind);

// Reads `train.peft`: none, lora or qlora, or a map {kind, rank, alpha, targets, dropout, quant, full}. What is wrong
// is reported; `alpha` is a factor and costs nothing.
Peft read_peft(const config::Node* node, Diagnostics& diagnostics);

// The low-rank products beside a layer's linear layers, as one of `tp` ranks (of experts: `etp` ranks) holds them:
// x[k] A[k, rank] B[rank, n]. Adapters of Q, or of K or V, stand beside both projections of latent attention; those of
// the MLP beside the experts and the shared experts alike, never beside a router.
// `merged`: one adapter for Q, K and V together and one for gate and up, as frameworks have it that compute these as
// one product.
struct LayerAdapters {
  std::vector<Projection> narrow;  // of the narrow projections of latent attention
  std::vector<Projection> qkv, attention_out;
  std::vector<Projection> mlp_in, mlp_out;        // of the MLP, or of the shared experts
  std::vector<Projection> expert_in, expert_out;  // of one expert

  std::vector<Projection> outside_experts() const;
  std::vector<Projection> of_expert() const;
  double parameters(std::int64_t rank) const;  // outside experts
  double parameters_of_expert(std::int64_t rank) const;
};
LayerAdapters layer_adapters(const Model& model, const Peft& peft, LayerKind kind, int tp, int etp, bool merged);

}  // namespace foretrain
