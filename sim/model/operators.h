#pragma once

#include <array>
#include <cstdint>

#include "sim/base/units.h"
#include "sim/model/model.h"

namespace foretrain {

// A linear layer as one tensor-parallel rank holds it: y[tokens, n] = x[tokens, k] W[k, n].
struct Projection {
  std::int64_t n = 0, k = 0;
  const char* name = "linear";  // for traces
};

// The four linear layers of a transformer layer on one of `tp` ranks. With fewer KV heads than ranks the KV
// heads are replicated. Gated MLPs compute gate and up as one product of width 2 f / tp.
struct LayerProjections {
  Projection qkv, attention_out, mlp_in, mlp_out;
  std::array<Projection, 4> all() const { return {qkv, attention_out, mlp_in, mlp_out}; }
};
LayerProjections layer_projections(const Model& model, int tp);

// The projections of latent attention on one of `tp` ranks, instead of qkv. The narrow ones are whole on every rank;
// q_down is empty where queries are not compressed.
struct LatentProjections {
  Projection q_down, kv_down, q_up, kv_up;
  std::array<Projection, 4> all() const { return {q_down, kv_down, q_up, kv_up}; }
};
// Precondition: model.mla.
LatentProjections latent_projections(const Model& model, int tp);

// The linear layers of a mixture of experts on one rank: the router is whole on every rank, an expert is split over
// `etp` ranks, the shared experts over `tp`.
struct ExpertProjections {
  Projection router, expert_in, expert_out, shared_in, shared_out;
};
ExpertProjections expert_projections(const Model& model, int tp, int etp);

// Vocabulary rows as stored: padded to a multiple of 128 * tp where the framework pads (Megatron's rule).
std::int64_t stored_vocabulary(const Model& model, int tp, bool padded);

// FLOPs of one forward pass over `tokens` tokens in sequences of length seq, whole model (not per rank), by the usual
// convention: 2 per matrix parameter that a token meets, attention counted over the full s x s matrix although half of
// it is masked (PaLM, arXiv 2204.02311, appendix B); of windowed layers only twice what is not masked. Prediction
// modules count with their head. The backward pass is twice the forward.
struct ForwardFlops {
  Flops layers;          // matrices of all layers
  Flops attention_core;  // QK^T and PV of all layers
  Flops head;
  Flops total() const { return layers + attention_core + head; }
};
ForwardFlops forward_flops(const Model& model, double tokens, std::int64_t seq);

}  // namespace foretrain
