#pragma once

#include <vector>

#include "sim/cost/kernel.h"
#include "sim/scenario/scenario.h"

namespace foretrain {

// What low-rank adapters beside a linear layer take of one pass over `tokens` tokens, unmerged: their products, and the
// kernels that scale, add and cast where the framework does not fuse these (PEFT: y = W x + s B(A(dropout(x)))).
// The backward pass makes the gradients of both factors and of the input.
KernelTime adapters_time(const Case& subject, double tokens, const std::vector<Projection>& adapters, Pass pass);

// Making the 16-bit weights of a quantised linear layer, once for a pass. Nothing where they are not quantised, or kept
// since the forward pass.
KernelTime dequantise_time(const Case& subject, const Projection& weights, Pass pass);

}  // namespace foretrain
