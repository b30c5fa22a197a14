#pragma once

#include <cstdint>
#include <vector>

#include "sim/plan/plan.h"

namespace foretrain {

// Parameters of one rank, before ZeRO shards them, by what becomes of them in training.
struct Parameters {
  double full = 0;       // trained as they are
  double adapters = 0;   // trained: low-rank factors beside frozen weights
  double frozen = 0;     // without gradient and optimizer state, in 16 bits
  double quantised = 0;  // likewise, stored in fewer bits
  double trained() const { return full + adapters; }
  double total() const { return full + adapters + frozen + quantised; }
  Parameters& operator+=(const Parameters& other);
  bool operator==(const Parameters&) const = default;
};

// What one rank holds of one block of the model: the unit that ZeRO-3 gathers and that gradient buckets are filled by.
struct Block {
  enum class Kind { embedding, layer, head } kind = Kind::layer;
  bool recomputed = false;  // its forward runs again before its backward
  LayerKind layer = {};     // of a layer
  Parameters rest = {};     // all data-parallel ranks have the same
  Parameters experts = {};  // only some do (Plan::expert_data_ranks); none where Plan::experts_as_rest
  double parameters() const { return rest.total() + experts.total(); }
  double trained() const { return rest.trained() + experts.trained(); }
  bool operator==(const Block&) const = default;
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
  // Tied embeddings share one table where a stage holds both ends of the model; otherwise the last stage keeps a copy.
  Parameters rest() const;
  Parameters experts() const;
  double parameters() const { return rest().total() + experts().total(); }
  double trained() const { return rest().trained() + experts().trained(); }
};

// Of trained parameters, those that fall to a rank when each kind is sharded over its own group (1 shard without ZeRO).
double sharded_parameters(const Block& block, const Plan& plan);
double sharded_parameters(const StageLayout& layout, const Plan& plan);

std::vector<StageLayout> stage_layouts(const Model& model, const Plan& plan, const Software& software,
                                       const Peft& peft = {});

// A group of gradients reduced together, in the order the backward pass produces them.
struct GradientBucket {
  double parameters = 0;
  double of_layers = 0;  // of them
  int chunk = 0;         // complete once the backward of this block of this chunk has run
  int block = 0;
  bool experts = false;  // reduced over the ranks that hold the same experts
};
// Bytes of weights as the ranks that share them gather them: `of_layers` of these parameters are in layers.
double gathered_weight_bytes(const Train& train, double parameters, double of_layers);
// Of trained parameters only. Buckets close when they hold at least `bucket_bytes` of gradients (as reduced). Experts
// have buckets of their own.
std::vector<GradientBucket> gradient_buckets(const StageLayout& stage, double gradient_bytes, double bucket_bytes);

}  // namespace foretrain
