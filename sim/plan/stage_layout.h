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
};

std::vector<StageLayout> stage_layouts(const Model& model, const Plan& plan, const Software& software);

// A group of gradients reduced together, in the order the backward pass produces them.
struct GradientBucket {
  double parameters = 0;
  int chunk = 0;  // complete once the backward of this block of this chunk has run
  int block = 0;
};
// Buckets close when they hold at least `bucket_bytes` of gradients (as reduced).
std::vector<GradientBucket> gradient_buckets(const StageLayout& stage, double gradient_bytes, double bucket_bytes);

}  // namespace foretrain
