#pragma once

#include <optional>
#include <vector>

#include "sim/cost/collective.h"
#include "sim/cost/kernel.h"
#include "sim/scenario/scenario.h"
#include "sim/workload/communicators.h"

namespace foretrain {

// A stretch of kernels on one rank, and the collective of its tensor- or context-parallel group that ends it, if any.
struct LayerStep {
  KernelTime compute;
  struct GroupCollective {
    Purpose purpose = Purpose::tensor;  // or context
    Collective op = Collective::all_reduce;
    Bytes bytes;           // full buffer
    double exposed = 1.0;  // least share that is not hidden under kernels it runs beside
    Seconds beside = {0};  // time of the kernels it may hide under; the rest of it is exposed too
  };
  std::optional<GroupCollective> collective;
};

// One pass over one block (a layer, the embedding, or head and loss) on one rank.
struct BlockPass {
  std::vector<LayerStep> steps;
  Seconds host;  // time the host needs to issue it; the pass cannot be shorter
  KernelTime compute() const;
};

BlockPass operator+(BlockPass first, const BlockPass& second);

// Device and host time of every block of the case's model, for one micro-batch on one rank of the plan.
class LayerCosts {
 public:
  explicit LayerCosts(const Case& subject);

  const BlockPass& layer_forward() const { return layer_forward_; }
  // `recomputed`: the layer's forward runs again first (full recompute); selective recompute is part of either.
  const BlockPass& layer_backward(bool recomputed) const {
    return recomputed ? layer_recompute_backward_ : layer_backward_;
  }
  const BlockPass& embedding(Pass pass) const {
    return pass == Pass::forward ? embedding_forward_ : embedding_backward_;
  }
  // Final norm, LM head and cross entropy.
  const BlockPass& head(Pass pass) const { return pass == Pass::forward ? head_forward_ : head_backward_; }

 private:
  BlockPass layer_forward_, layer_backward_, layer_recompute_backward_;
  BlockPass embedding_forward_, embedding_backward_, head_forward_, head_backward_;
};

}  // namespace foretrain
