#include "sim/plan/peft.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>

#include "sim/config/quote.h"
#include "sim/config/reader.h"

namespace foretrain {
namespace {

using config::MapReader;
using config::Node;

// NF4: half a byte and an fp32 scale for every 64 weights; double quantisation leaves 0.127 bits of scales a weight
// (arXiv 2305.14314, section 3). Reading these and writing two bytes a weight is 2.57 bytes; the kernels reach half of
// the bandwidth that streaming kernels do (0.4 to 0.6 against 0.8 on A100 and H100 before
// bitsandbytes-foundation/bitsandbytes pull 1747).
constexpr double kNf4Bytes = (0.5 + 4.0 / 64 + 2) * 2, kNf4DqBytes = (0.5 + 0.127 / 8 + 2) * 2;
// GPTQ in groups of 128 with 16-bit scales and 4-bit zero points (arXiv 2210.17323). Training unpacks with PyTorch
// operations, one by one (AutoGPTQ, auto_gptq/nn_modules/qlinear/qlinear_cuda.py): shift to int32, narrow, mask, gather
// scale and zero point by group, subtract, multiply: 26 bytes a weight by count; Qwen's published LoRA and Q-LoRA times
// differ by 29. The product's autograd keeps the result.
constexpr double kGptqBytes = 29;
// LLM.int8 (arXiv 2208.07339): a byte a weight and a scale a row.
constexpr std::array<WeightFormat, 4> kFormats = {{
    {"nf4", 0.5, 4.0 / 64, kNf4Bytes, 1, false},
    {"nf4-dq", 0.5, 0.127 / 8, kNf4DqBytes, 2, false},
    {"gptq", 0.5, 2.5 / 128, kGptqBytes, 8, true},
    {"int8", 1, 0.001, (1 + 2) * 2, 2, false},
}};

// One linear layer by its name here or in the frameworks.
bool* target_named(Peft::Targets& t, std::string_view name) {
  if (name.ends_with("_proj")) name.remove_suffix(5);
  struct Named {
    const char* name;
    bool* value;
  };
  const std::array<Named, 7> targets = {
      {{"q", &t.q}, {"k", &t.k}, {"v", &t.v}, {"o", &t.o}, {"gate", &t.gate}, {"up", &t.up}, {"down", &t.down}}};
  const auto found = std::find_if(targets.begin(), targets.end(), [&](const Named& n) { return name == n.name; });
  return found == targets.end() ? nullptr : found->value;
}

Peft::Targets read_targets(MapReader& reader) {
  const std::optional<std::vector<std::string>> names = reader.text_list("targets");
  Peft::Targets targets;
  if (!names) return targets;
  if (names->size() == 1 && names->front() == "all-linear") return targets;
  targets = {false, false, false, false, false, false, false};
  if (names->size() == 1 && names->front() == "attention") {
    targets.q = targets.k = targets.v = targets.o = true;
  } else if (names->size() == 1 && names->front() == "qv") {
    targets.q = targets.v = true;
  } else {
    for (const std::string& name : *names) {
      bool* target = target_named(targets, name);
      if (target == nullptr) {
        reader.error("targets", message("train.peft.targets {} is no linear layer; legal: all-linear, attention, "
                                        "qv, or a list of q, k, v, o, gate, up, down",
                                        config::in_quotes(name)));
        return {};
      }
      *target = true;
    }
  }
  if (!targets.any())
    reader.error("targets", message("train.peft.targets is empty; legal: all-linear, attention, qv, a list"));
  return targets;
}

void read_full(MapReader& reader, Peft& peft) {
  for (const std::string& part : reader.text_list("full").value_or(std::vector<std::string>{})) {
    if (part == "embedding" || part == "embed_tokens") {
      peft.full_embedding = true;
    } else if (part == "lm_head" || part == "head") {
      peft.full_head = true;
    } else {
      reader.error("full", message("train.peft.full {} is not trained beside adapters; legal: embedding, lm_head",
                                   config::in_quotes(part)));
    }
  }
}

void read_format(MapReader& reader, Peft& peft) {
  const std::optional<std::size_t> chosen = reader.choice("quant", {"none", "nf4", "nf4-dq", "int4", "gptq", "int8"});
  constexpr std::array names = {"none", "nf4", "nf4-dq", "int4", "gptq", "int8"};
  if (chosen) peft.format = weight_format(names[*chosen]);
  if (peft.kind == Peft::Kind::lora && peft.format != nullptr) {
    reader.error("quant",
                 message("train.peft.quant quantises frozen weights, which kind: lora leaves in 16 bits; write kind: "
                         "qlora, or quant: none"));
  } else if (peft.kind == Peft::Kind::qlora && peft.format == nullptr) {
    if (chosen) {
      reader.error("quant",
                   message("kind: qlora needs quantised weights; legal quant: nf4, nf4-dq, gptq, int8, or kind: lora"));
    }
    peft.format = weight_format("nf4");
  }
}

const std::vector<std::string>& kinds() {
  static const std::vector<std::string> names = {"none", "lora", "qlora"};
  return names;
}

}  // namespace

const WeightFormat* weight_format(std::string_view name) {
  if (name == "int4") name = "gptq";
  const auto found = std::find_if(kFormats.begin(), kFormats.end(), [&](const auto& f) { return name == f.name; });
  return found == kFormats.end() ? nullptr : &*found;
}

const char* to_string(Peft::Kind kind) { return kinds()[static_cast<std::size_t>(kind)].c_str(); }

Peft read_peft(const Node* node, Diagnostics& diagnostics) {
  Peft peft;
  if (present(node) == nullptr) return peft;
  if (node->is_scalar()) {
    const Node wrapped{node->position, Node::Map{{"peft", node->position, *node}}};
    const auto kind = MapReader(wrapped, diagnostics, "train").choice("peft", kinds());
    peft.kind = static_cast<Peft::Kind>(kind.value_or(0));
    if (peft.kind == Peft::Kind::qlora) peft.format = weight_format("nf4");
    return peft;
  }
  MapReader reader(*node, diagnostics, "train.peft");
  reader.required_text("kind");
  peft.kind = static_cast<Peft::Kind>(reader.choice("kind", kinds()).value_or(0));
  peft.rank = reader.integer("rank", {1, 65536}).value_or(peft.rank);
  reader.number("alpha", config::Unit::count, {0, 1e9});
  peft.dropout = reader.number("dropout", config::Unit::count, {0, 1}).value_or(0);
  peft.targets = read_targets(reader);
  read_format(reader, peft);
  read_full(reader, peft);
  reader.finish();
  return peft;
}

namespace {

std::vector<Projection> joined(std::initializer_list<const std::vector<Projection>*> parts) {
  std::vector<Projection> all;
  for (const auto* part : parts) all.insert(all.end(), part->begin(), part->end());
  return all;
}

double factors(const std::vector<Projection>& adapters, std::int64_t rank) {
  double sum = 0;
  for (const Projection& p : adapters) sum += static_cast<double>(p.n + p.k) * static_cast<double>(rank);
  return sum;
}

void add(std::vector<Projection>& to, bool wanted, Projection p) {
  if (wanted && p.n > 0) to.push_back(p);
}

void add_mlp(std::vector<Projection>& in, std::vector<Projection>& out, const Model& m, const Peft::Targets& t,
             std::int64_t width, bool merged) {
  if (width == 0) return;
  const bool gate = m.gated && t.gate;
  if (merged && gate && t.up) {
    in.push_back({2 * width, m.hidden});
  } else {
    add(in, gate, {width, m.hidden});
    add(in, t.up, {width, m.hidden});
  }
  add(out, t.down, {m.hidden, width});
}

}  // namespace

std::vector<Projection> LayerAdapters::outside_experts() const {
  return joined({&narrow, &qkv, &attention_out, &mlp_in, &mlp_out});
}
std::vector<Projection> LayerAdapters::of_expert() const { return joined({&expert_in, &expert_out}); }
double LayerAdapters::parameters(std::int64_t rank) const { return factors(outside_experts(), rank); }
double LayerAdapters::parameters_of_expert(std::int64_t rank) const { return factors(of_expert(), rank); }

// The factor on the split side of a linear layer is split with it, the other is replicated (Megatron Bridge, NeMo).
LayerAdapters layer_adapters(const Model& m, const Peft& peft, LayerKind kind, int tp, int etp, bool merged) {
  LayerAdapters adapters;
  if (!peft.active()) return adapters;
  const LayerProjections linear = layer_projections(m, tp);
  const Peft::Targets& t = peft.targets;
  const std::int64_t q = m.query_width() / tp, kv = (linear.qkv.n - q) / 2;
  if (m.mla) {
    const LatentProjections latent = latent_projections(m, tp);
    add(adapters.narrow, t.q, latent.q_down);
    add(adapters.narrow, t.k || t.v, latent.kv_down);
    add(adapters.qkv, t.q, latent.q_up);
    add(adapters.qkv, t.k || t.v, latent.kv_up);
  } else if (merged && (t.q || t.k || t.v)) {
    adapters.qkv.push_back({(t.q ? q : 0) + (t.k ? kv : 0) + (t.v ? kv : 0), m.hidden});
  } else {
    add(adapters.qkv, t.q, {q, m.hidden});
    add(adapters.qkv, t.k, {kv, m.hidden});
    add(adapters.qkv, t.v, {kv, m.hidden});
  }
  add(adapters.attention_out, t.o, linear.attention_out);
  if (!kind.experts) {
    add_mlp(adapters.mlp_in, adapters.mlp_out, m, t, linear.mlp_out.k, merged);
    return adapters;
  }
  const ExpertProjections experts = expert_projections(m, tp, etp);
  add_mlp(adapters.mlp_in, adapters.mlp_out, m, t, experts.shared_out.k, merged);
  add_mlp(adapters.expert_in, adapters.expert_out, m, t, experts.expert_out.k, merged);
  return adapters;
}

}  // namespace foretrain
