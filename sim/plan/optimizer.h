#pragma once

#include <cstdint>

#include "sim/software/software.h"

namespace foretrain {

struct Train;

enum class Optimizer : std::uint8_t { adamw, adamw8bit, paged_adamw8bit, sgd, lion, lamb, adafactor, muon };
const char* to_string(Optimizer optimizer);
// Whether its states may be paged to host memory while they do not fit.
bool is_paged(Optimizer optimizer);

// Whether there is code that updates weights with it on the host.
bool runs_on_host(Optimizer optimizer);

// In what precision the weights are kept that the optimizer updates.
enum class MasterWeights : std::uint8_t {
  as_framework,  // as the software profile says
  fp32,          // a copy in fp32, or fp32 weights
  none,          // weights, gradients and optimizer states are all 16-bit
};

// Bytes a parameter that is trained, before ZeRO shards them: what the framework keeps for AdamW, with this run's
// optimizer and master weights in its stead.
Software::StateBytes state_bytes(const Software& software, const Train& train, int zero);

// What the optimizer keeps for a parameter of the token table, and of an LM head of its own, beyond that of others:
// 8-bit optimizers leave the states of embeddings in fp32, which is where small errors of theirs hurt (arXiv
// 2110.02861, section 2.3); Muon is for matrices inside layers, and AdamW takes the rest.
struct TableStates {
  double embedding = 0, head = 0;
};
TableStates extra_table_states(const Software& software, const Train& train, int zero);

// Bytes that the optimizer step moves a trained parameter.
double optimizer_traffic_bytes(const Software& software, const Train& train, int zero);

}  // namespace foretrain
