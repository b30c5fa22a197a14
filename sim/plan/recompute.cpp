#include "sim/plan/recompute.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "sim/config/quote.h"

namespace foretrain {
namespace {

using config::MapReader;
using config::Node;

struct Named {
  std::string_view name;
  RedoneParts parts;
};

// A checkpointed MLP runs as a whole (Megatron-Core checkpoints the module), and so its last product does; frameworks
// that stop at the last tensor that is needed leave that out.
constexpr RedoneParts kNorms{.norms = true}, kActivation{.activation = true},
    kMlp{.mlp_in = true, .activation = true, .mlp_out = true}, kCore{.core_attention = true}, kQkv{.qkv = true},
    kAttention{.qkv = true, .core_attention = true};

constexpr RedoneParts kExperts{.experts = true}, kExpertActivation{.expert_activation = true},
    kSharedExperts{.shared_experts = true}, kUpProjections{.up_projections = true};

constexpr std::array kModules = {Named{"core_attn", kCore},
                                 Named{"attention", kCore},
                                 Named{"layernorm", kNorms},
                                 Named{"norm", kNorms},
                                 Named{"qkv", kQkv},
                                 Named{"att", kAttention},
                                 Named{"mlp", kMlp},
                                 Named{"ffn", kMlp},
                                 Named{"act", kActivation},
                                 Named{"swiglu", kActivation},
                                 Named{"moe", kExperts},
                                 Named{"moe_act", kExpertActivation},
                                 Named{"shared_experts", kSharedExperts},
                                 Named{"mla_up_proj", kUpProjections}};

// Where everything is redone, saving an output spares the work that makes it. The projections of latent attention that
// compress count as `qkv` here.
constexpr std::array kSaved = {Named{"qkv", RedoneParts{.qkv = true, .up_projections = true}},
                               Named{"attention", kCore},
                               Named{"attention_out", RedoneParts{.attention_out = true}},
                               Named{"mlp_in", RedoneParts{.mlp_in = true}},
                               Named{"mlp", RedoneParts{.mlp_out = true}},
                               Named{"latent", kQkv},
                               Named{"moe", RedoneParts{.experts = true}}};

template <std::size_t N>
const Named* find(const std::array<Named, N>& table, std::string_view name) {
  const auto found = std::find_if(table.begin(), table.end(), [&](const Named& n) { return n.name == name; });
  return found == table.end() ? nullptr : &*found;
}

template <class Combine>
RedoneParts combined(RedoneParts a, const RedoneParts& b, Combine combine) {
  for (bool RedoneParts::*part :
       {&RedoneParts::norms, &RedoneParts::qkv, &RedoneParts::core_attention, &RedoneParts::attention_out,
        &RedoneParts::mlp_in, &RedoneParts::activation, &RedoneParts::mlp_out, &RedoneParts::up_projections,
        &RedoneParts::experts, &RedoneParts::expert_activation, &RedoneParts::shared_experts}) {
    a.*part = combine(a.*part, b.*part);
  }
  return a;
}

template <std::size_t N>
void check_names(MapReader& map, const char* key, const std::vector<std::string>& names,
                 const std::array<Named, N>& table) {
  for (const std::string& name : names) {
    if (find(table, name) != nullptr) continue;
    std::vector<std::string_view> legal;
    for (const Named& named : table) legal.push_back(named.name);
    map.error(key, message("plan.recompute.{}: {} is no part of a layer; legal: {}", key, config::in_quotes(name),
                           fmt::join(legal, ", ")));
  }
}

}  // namespace

const char* Recompute::to_string(Mode mode) {
  constexpr std::array names = {"none", "selective", "full", "blocks", "modules", "saved"};
  return names[static_cast<std::size_t>(mode)];
}

RedoneParts Recompute::redone(const Software& software) const {
  const bool stops_early = software.recompute_stops_early;
  if (mode == Mode::saved) {
    RedoneParts parts{.norms = true,
                      .qkv = true,
                      .core_attention = true,
                      .attention_out = true,
                      .mlp_in = true,
                      .activation = true,
                      .mlp_out = true,
                      .up_projections = true,
                      .experts = true};
    for (const std::string& name : names) {
      if (const Named* spared = find(kSaved, name))
        parts = combined(parts, spared->parts, [](bool a, bool b) { return a && !b; });
    }
    parts.mlp_out = parts.mlp_out && !stops_early;
    return parts;
  }
  RedoneParts parts;
  if (mode != Mode::modules) return parts;
  for (const std::string& name : names) {
    if (const Named* module = find(kModules, name))
      parts = combined(parts, module->parts, [](bool a, bool b) { return a || b; });
  }
  parts.mlp_out = parts.mlp_out && !stops_early;
  return parts;
}

std::optional<Recompute> read_recompute(MapReader& plan, Diagnostics& diagnostics) {
  const Node* node = plan.node("recompute");
  if (present(node) == nullptr) return std::nullopt;
  if (!node->is_map()) {
    const std::array modes = {Recompute::Mode::none, Recompute::Mode::selective, Recompute::Mode::full};
    const std::optional<std::size_t> chosen = plan.choice("recompute", {"none", "selective", "full"});
    return chosen ? std::optional(Recompute{modes[*chosen], 0}) : std::nullopt;
  }
  MapReader recompute(*node, diagnostics, "plan.recompute");
  const std::optional<std::int64_t> blocks = recompute.integer("blocks", {0, 1e6});
  const auto modules = recompute.text_list("modules"), saved = recompute.text_list("saved");
  recompute.finish();
  if ((blocks ? 1 : 0) + (modules ? 1 : 0) + (saved ? 1 : 0) > 1) {
    diagnostics.error(node->position,
                      message("plan.recompute has several rules at once; write one of blocks, modules, saved"));
    return std::nullopt;
  }
  if (modules) {
    check_names(recompute, "modules", *modules, kModules);
    return Recompute{modules->empty() ? Recompute::Mode::none : Recompute::Mode::modules, 0, *modules};
  }
  if (saved) {
    check_names(recompute, "saved", *saved, kSaved);
    return Recompute{saved->empty() ? Recompute::Mode::full : Recompute::Mode::saved, 0, *saved};
  }
  if (!blocks) return std::nullopt;
  return Recompute{*blocks == 0 ? Recompute::Mode::none : Recompute::Mode::blocks, *blocks};
}

}  // namespace foretrain
