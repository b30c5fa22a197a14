#pragma once

#include <cstdint>
#include <vector>

#include "sim/plan/plan.h"

namespace foretrain {

// What one rank holds of one block of the model: the unit that ZeRO-3 gathers and that gradient buckets are filled by.
struct Block {
  enum class Kind { embedding, layer, head } kind = Kind::layer;
  double parameters = 0;    // held by one tensor-parallel rank, before ZeRO sharding
  bool recomputed = false;  // its forward runs again before its backward
  // Of `parameters`, with adapters beside frozen weights:
  double frozen = 0;     // have no gradient and no optimizer state
  double quantised = 0;  // of the frozen ones: stored in fewer bits
  double adapters = 0;   // of the trained ones: low-rank factors
  LayerKind layer = {};  // of a layer
  // Of `parameters`: experts that are shared with other ranks than the rest (none where Plan::experts_as_rest).
  double expert_parameters = 0;
  double trained() const { return parameters - frozen; }
};

// The blocks of one chunk in forward order.
struct Chunk {
  std::vector<Block> blocks;
  std::int64_t layers() const;
  bool has(Block::Kind kind) const;
};

// The chunks of one pipeline stage, and what its ranks hold in all.
struct StageLayout {
  std::vector<Chunk> chunks;
  // Parameters held by one rank. Tied embeddings share one table where a stage holds both ends of the model;
  // otherwise the last stage keeps a copy.
  double parameters() const;
  double trained() const;            // of them, with gradients and optimizer states
  double expert_parameters() const;  // of those, see Block
};

// Of the trained parameters a rank holds, those that fall to it when each kind is sharded over its own group
// (1 shard without ZeRO).
double sharded_parameters(const StageLayout& layout, const Plan& plan);

// With adapters, `parameters` counts frozen weights and adapters alike.
std::vector<StageLayout> stage_layouts(const Model& model, const Plan& plan, const Software& software,
                                       const Peft& peft = {});

// A group of gradients reduced together, in the order the backward pass produces them.
struct GradientBucket {
  double parameters = 0;
  int chunk = 0;  // complete once the backward of this block of this chunk has run
  int block = 0;
  bool experts = false;  // reduced over the ranks that hold the same experts
};
// Of trained parameters only. Buckets close when they hold at least `bucket_bytes` of gradients (as reduced). Experts
// have buckets of their own.
std::vector<GradientBucket> gradient_buckets(const StageLayout& stage, double gradient_bytes, double bucket_bytes);

}  // namespace foretrain
