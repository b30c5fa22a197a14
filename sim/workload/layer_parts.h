#pragma once

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
  Precision rest = Precision::bf16;    // of attention, head: fp8 recipes leave these in bf16
};

// Of an element of the gradient buffer that weight gradients are added into.
double gradient_bytes(const Case& c);

// The input and weight gradients of a linear layer, or its output, with the casts of an fp8 run. Quantised weights are
// made 16 bit first; weights that adapters stand beside are frozen and have no gradient.
KernelList linear_pass(const Case& c, const RankShape& s, const Projection& projection, double tokens, Pass pass,
                       const std::vector<Projection>& adapters = {});

// A region between tensor-parallel collectives, see layer_cost.cpp.
void add_region(BlockPass& block, const Case& c, const RankShape& s, std::vector<LayerStep> steps, Seconds beside,
                double gathered_width);

// layer_experts.cpp: the mixture of experts that stands in the place of a layer's MLP: router, dispatch, experts,
// combine, shared experts. `norms`: the elementwise kernels of the MLP half that are of the hidden width; `attention`:
// time of the kernels of the attention half.
void add_experts(BlockPass& block, const Case& c, const RankShape& s, Pass pass, const KernelList& norms,
                 Seconds attention);

}  // namespace foretrain
