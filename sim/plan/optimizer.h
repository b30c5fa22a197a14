#pragma once

#include <cstdint>

#include "sim/software/software.h"

namespace foretrain {

struct Train;

enum class Optimizer : std::uint8_t { adamw, adamw8bit, paged_adamw8bit, sgd, lion, lamb, adafactor };
const char* to_string(Optimizer optimizer);

// In what precision the weights are kept that the optimizer updates.
enum class MasterWeights : std::uint8_t {
  as_framework,  // as the software profile says
  fp32,          // a copy in fp32, or fp32 weights
  none,          // weights, gradients and optimizer states are all 16-bit
};

// Bytes a parameter that is trained, before ZeRO shards them: what the framework keeps for AdamW, with this run's
// optimizer and master weights in its stead.
Software::StateBytes state_bytes(const Software& software, const Train& train, int zero);

// What the optimizer keeps for a parameter of the token table beyond that of others: 8-bit optimizers leave the states
// of embeddings in fp32, which is where small errors of theirs hurt (arXiv 2110.02861, section 2.3).
double extra_table_state_bytes(const Train& train);

// Bytes that the optimizer step moves a trained parameter.
double optimizer_traffic_bytes(const Software& software, const Train& train, int zero);

}  // namespace foretrain
