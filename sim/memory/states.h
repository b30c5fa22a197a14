#pragma once

#include "sim/plan/stage_layout.h"
#include "sim/scenario/scenario.h"

// What the ledger counts of weights, gradients and optimizer states: bytes on one rank after ZeRO has sharded them,
// each kind of parameter over the ranks that share it. The public face is ledger.h.
namespace foretrain {

// Of trained and frozen weights as a GPU holds them, nothing where they are offloaded; with the copies of an fp8 run.
Bytes weight_bytes(const Case& subject, const StageLayout& layout);

// Of all gradients at the end of a backward pass; nothing where they leave in it.
Bytes gradient_bytes_held(const Case& subject, const StageLayout& layout);

// fp32 weights and moments, wherever they are.
Bytes optimizer_state_bytes(const Case& subject, const StageLayout& layout);

// What the optimizer step adds while it runs.
Bytes optimizer_extra_bytes(const Case& subject, const StageLayout& layout);

// Gradient buckets and the like.
Bytes communication_buffer_bytes(const Case& subject, const StageLayout& layout);

// ZeRO-3: blocks whose weights are whole for the moment, and the gradient of the one in its backward pass.
Bytes gathered_block_bytes(const Case& subject, const StageLayout& layout);

}  // namespace foretrain
