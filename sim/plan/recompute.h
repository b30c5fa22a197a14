#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/config/reader.h"
#include "sim/software/software.h"

namespace foretrain {

// The forward work of a layer that runs again before its backward pass, so that what it makes need not be kept.
struct RedoneParts {
  bool norms = false;           // both, and what stands beside them
  bool qkv = false;             // projection of Q, K and V, rotary
  bool core_attention = false;  // scores, softmax, values
  bool attention_out = false;
  bool mlp_in = false;  // up, with gate
  bool activation = false;
  bool mlp_out = false;
  bool up_projections = false;     // of latent attention, from the compressed vectors
  bool experts = false;            // the whole mixture: router, exchanges, experts, shared experts
  bool expert_activation = false;  // between the products of the experts
  bool shared_experts = false;

  bool operator==(const RedoneParts&) const = default;
};

struct Recompute {
  enum class Mode {
    none,
    selective,  // scores, softmax, dropout and values of the attention core only
    full,       // every layer from its input
    blocks,  // `blocks` layers of every pipeline stage in full, the others none: the first of every chunk of the stage,
             // as evenly as they divide (Megatron-Core, TransformerBlock._checkpointed_forward: so many of each chunk)
    modules,  // of every layer the parts that are named
    saved,    // of every layer all but the outputs that are named
  };
  static const char* to_string(Mode mode);
  Mode mode = Mode::none;
  std::int64_t blocks = 0;
  std::vector<std::string> names = {};  // of Mode::modules and Mode::saved, as written

  // Selective recompute of the attention core, which is what most frameworks mean by it; some redo every second layer.
  bool of_attention_core(const Software& software) const {
    return mode == Mode::selective && !software.selective_is_every_other_layer;
  }
  bool of_parts() const { return mode == Mode::modules || mode == Mode::saved; }
  // What of_parts() means: names as in Megatron-Core's recompute_modules (core_attn, mlp, layernorm, moe, moe_act,
  // shared_experts, mla_up_proj ...), llm.q's options (norm, qkv, att, ffn, swiglu) and what MaxText's remat policies
  // keep (qkv; attention: of the core; attention_out and mlp: of their last projections; mlp_in: of the first).
  RedoneParts redone(const Software& software) const;
};

// Reads `recompute: none | selective | full | {blocks: N} | {modules: [...]} | {saved: [...]}`; nullopt if it is not
// there or wrong.
std::optional<Recompute> read_recompute(config::MapReader& plan, Diagnostics& diagnostics);

}  // namespace foretrain
