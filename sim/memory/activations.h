#pragma once

#include "sim/plan/stage_layout.h"
#include "sim/scenario/scenario.h"

// What the ledger counts of activations, on one rank and for one micro-batch: the tensors that layers keep for their
// backward pass, and the logits. The public face is ledger.h.
namespace foretrain {

double tokens_of(const Case& subject);

// Ranks that split what lies outside the tensor-parallel regions.
double hidden_shards(const Case& subject);

// The activation formulas count 16-bit elements; fp32 and tf32 runs keep twice as much.
double precision_scale(const Case& subject);

// The tensors that a layer's backward pass works on, in bytes, whatever of them recompute spares.
Bytes whole_activations_of_layer(const Case& subject, LayerKind kind);

// The most that a layer's forward pass holds at a time if nothing of it is kept: the tensors of its MLP, or of its
// experts.
Bytes dropped_activations_of_layer(const Case& subject, LayerKind kind);

// What the gradients of a layer's tensors add to those in its backward pass, at most at a time.
Bytes activation_gradients_of_layer(const Case& subject, LayerKind kind);

// Of a recomputed layer, what stays of gradients until the whole backward pass is through.
Bytes held_activation_gradients_of_layer(const Case& subject);

// Where the backward pass runs in two halves: what the second works on, made of the inputs of a layer's linear layers
// and the gradients of their outputs.
Bytes deferred_activations_of_layer(const Case& subject, LayerKind kind);

// 16-bit weights of a block that autograd keeps from the product with quantised ones.
double kept_dequantised_weights(const Case& subject, const Block& block);

// The scores of the vocabulary and what is made of them.
struct LogitMemory {
  Bytes live;      // at the end of the forward pass and the start of the backward pass
  Bytes kept;      // of it: between the two
  Bytes deferred;  // where the backward pass runs in two halves: from the first to the second
};
LogitMemory logit_memory(const Case& subject);

}  // namespace foretrain
