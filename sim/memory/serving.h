#pragma once

#include "sim/model/model.h"
#include "sim/plan/peft.h"

namespace foretrain {

// What a model that only answers keeps on one GPU. How fast it answers is not foretrain's subject.
struct Serving {
  const WeightFormat* format = nullptr;  // of the matrices inside layers; nullptr: 16-bit, as all else is always
  std::int64_t streams = 1;              // answered at a time, each of `context` tokens
  std::int64_t context = 4096;
  double cache_bytes = 2;  // of an element of the key-value cache
};

struct ServingMemory {
  Bytes weights;
  Bytes cache;  // keys and values of all tokens seen
};
ServingMemory serving_memory(const Model& model, const Serving& serving);

// Elements that the cache holds of one stream: keys and values of every layer's key-value heads; with latent attention
// the compressed vector and the rotary part of the keys instead (DeepSeek-V2, arXiv 2405.04434, section 2.1); of
// windowed layers no more tokens than the window.
double cache_elements(const Model& model, std::int64_t context);

}  // namespace foretrain
