#pragma once

#include <array>
#include <optional>
#include <vector>

#include "sim/cost/collective.h"
#include "sim/cost/kernel.h"
#include "sim/scenario/scenario.h"
#include "sim/workload/communicators.h"
#include "sim/workload/kernel_list.h"

namespace foretrain {

// A stretch of kernels on one rank, and the collective of its tensor- or context-parallel group that ends it, if any.
struct LayerStep {
  KernelList compute;
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
  Seconds host;   // time the host needs to issue it; the pass cannot be shorter
  Seconds stall;  // time the device waits for the host whatever else happens
  KernelTime compute() const;
};

BlockPass operator+(BlockPass first, const BlockPass& second);

// Device and host time of every block of the case's model, for one micro-batch on one rank of the plan.
class LayerCosts {
 public:
  explicit LayerCosts(const Case& subject);

  // Where a backward pass is cut in two, the second half is the products for weight gradients of linear layers and of
  // the head; all else, the embedding's gradient too, belongs to the first. Their kernels are those of the whole.
  // `recomputed`: the layer's forward runs again first (full recompute); selective recompute is part of either.
  // Precondition: the model has such a layer.
  const BlockPass& layer(LayerKind kind, Pass pass, bool recomputed) const {
    const Layer& layer = layers_[static_cast<std::size_t>(kind.index())];
    return (recomputed ? layer.recomputed : layer.plain)[index(pass)];
  }
  const BlockPass& embedding(Pass pass) const { return embedding_[index(pass)]; }
  // Final norm, LM head and cross entropy.
  const BlockPass& head(Pass pass) const { return head_[index(pass)]; }

 private:
  static std::size_t index(Pass pass) { return static_cast<std::size_t>(pass); }
  using OfPass = std::array<BlockPass, 4>;
  struct Layer {
    OfPass plain, recomputed;
  };
  void prepare(const Case& subject, LayerKind kind);

  std::array<Layer, LayerKind::kCount> layers_;
  OfPass embedding_, head_;
};

}  // namespace foretrain
