#pragma once

#include <string>
#include <vector>

#include "sim/cost/kernel.h"
#include "sim/scenario/scenario.h"

namespace foretrain::page {

// A kernel with matrix products of a layer or of the head, for one micro-batch on one GPU.
struct OperatorPoint {
  std::string name;  // "qkv", "attention", "mlp_in" ...
  Pass pass = Pass::forward;
  double flops = 0;  // that it does
  double bytes = 0;  // every operand once: what must cross HBM
  Seconds time;
};

// Where the model's matrix work stands between the GPU's matrix rate and its memory bandwidth. Elementwise kernels,
// which do next to no FLOPs, are left out; so are adapters and casts.
std::vector<OperatorPoint> operator_points(const Case& subject);

}  // namespace foretrain::page
