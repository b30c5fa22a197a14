#pragma once

#include <optional>
#include <vector>

#include "sim/model/operators.h"
#include "sim/workload/layer_cost.h"

// What the files that price a layer share.
namespace foretrain {

// The sizes that every block of one rank shares.
struct RankShape {
  double tokens = 0;         // of a micro-batch, on this rank
  double hidden_shards = 1;  // ranks that split the sequence outside the tensor-parallel regions
  double tp = 1;
  double element = 2;                  // bytes
  Precision matmul = Precision::bf16;  // of the layers' linear products
  Precision rest = Precision::bf16;    // of attention, head: quantised recipes leave these in bf16
};
RankShape shape_of(const Case& c);

// Of quantising an element of a linear layer's input, or of its output's gradient. fp8: read in 16 bits and written; a
// scale for each block along rows and columns needs both orders, each with its scales (Fp8::activation_scale_bytes).
// nvfp4: read for the largest element of the tensor, which the blocks' scales are relative to, read for the order along
// rows, and read for that along columns, which a Hadamard transform goes before (arXiv 2509.25149, section 4; the three
// kernels of Transformer Engine's NVFP4BlockScaling).
double quantise_bytes(const Case& c, Pass pass);

// Of an element of the gradient buffer that weight gradients are added into.
double gradient_bytes(const Case& c);

// One linear layer over so many tokens: its output; the gradient of its weight, added to the buffer; and that of its
// input, all there is to do for frozen weights.
KernelTime forward_product(const Case& c, Precision precision, double tokens, const Projection& p);
KernelTime weight_gradient(const Case& c, Precision precision, double tokens, const Projection& p);
KernelTime input_gradient(const Case& c, Precision precision, double tokens, const Projection& p);

// The input and weight gradients of a linear layer, or its output, with the casts of an fp8 run. Quantised weights are
// made 16 bit first; weights that adapters stand beside are frozen and have no gradient.
KernelList linear_pass(const Case& c, const RankShape& s, const Projection& projection, double tokens, Pass pass,
                       const std::vector<Projection>& adapters = {});

// The whole hidden tensor of a micro-batch on a context-parallel rank.
Bytes hidden_tensor(const Case& c, const RankShape& s);

// A region between tensor-parallel collectives, see layer_cost.cpp.
void add_region(BlockPass& block, const Case& c, const RankShape& s, std::vector<LayerStep> steps, Seconds beside,
                double gathered_width);

// Elementwise kernels of the attention half and of the MLP half of a layer; `norms` is the part of the latter that is
// of the hidden width.
struct Elementwise {
  KernelList attention, mlp, norms;
};
Elementwise elementwise(const Case& c, const RankShape& s, const Software::ElementwisePasses& passes);

// Host time to issue a layer's pass.
Seconds layer_host_time(const Case& c, LayerKind kind, Pass pass);

BlockPass forward_of_layer(const Case& c, const RankShape& s, LayerKind kind);

LayerAdapters adapters_of_layer(const Case& c, LayerKind kind);

// layer_attention.cpp: scores, softmax and values.
bool softmax_is_fused(const Case& c);
KernelList attention_core(const Case& c, const RankShape& s, LayerKind kind, Pass pass);
// What the ranks that split the sequences exchange before and after the core, which lasts `core`, in a forward or
// backward pass.
struct ContextExchange {
  std::optional<LayerStep::GroupCollective> before, after;
};
ContextExchange context_exchange(const Case& c, const RankShape& s, Pass pass, Seconds core);
// The projections before the core: one product for Q, K and V, or the narrow and wide ones of latent attention. The
// narrow ones are whole on every rank and work on the rank's part of the sequence.
struct AttentionInputs {
  KernelList narrow, wide;
  double gathered_width = 0;  // what a tensor-parallel region gathers of a token
};
AttentionInputs attention_inputs(const Case& c, const RankShape& s, Pass pass, const LayerAdapters& adapters = {});

// layer_experts.cpp: the mixture of experts that stands in the place of a layer's MLP: router, dispatch, experts,
// combine, shared experts. `norms`: the elementwise kernels of the MLP half that are of the hidden width; `attention`:
// time of the kernels of the attention half.
void add_experts(BlockPass& block, const Case& c, const RankShape& s, LayerKind kind, Pass pass,
                 const KernelList& norms, Seconds attention);
// The activation between the products of a rank's experts, and its shared experts.
KernelList expert_activation(const Case& c, const RankShape& s, Pass pass);
KernelList shared_experts(const Case& c, const RankShape& s, LayerKind kind, Pass pass);

// layer_recompute.cpp: the forward work that recompute of parts of a layer does again at the start of its backward
// pass.
BlockPass redone_parts_of_layer(const Case& c, const RankShape& s, LayerKind kind);

// head_cost.cpp: the model's ends.
BlockPass embedding_pass(const Case& c, const RankShape& s, Pass pass);
BlockPass head_pass(const Case& c, const RankShape& s, Pass pass);

}  // namespace foretrain
