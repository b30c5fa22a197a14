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
  double trained() const;  // of them, with gradients and optimizer states
};

// With adapters, `parameters` counts frozen weights and adapters alike.
std::vector<StageLayout> stage_layouts(const Model& model, const Plan& plan, const Software& software,
                                       const Peft& peft = {});

// A group of gradients reduced together, in the order the backward pass produces them.
struct GradientBucket {
  double parameters = 0;
  int chunk = 0;  // complete once the backward of this block of this chunk has run
  int block = 0;
};
// Of trained parameters only. Buckets close when they hold at least `bucket_bytes` of gradients (as reduced).
std::vector<GradientBucket> gradient_buckets(const StageLayout& stage, double gradient_bytes, double bucket_bytes);

}  // namespace foretrain
