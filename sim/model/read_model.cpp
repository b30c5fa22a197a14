#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "sim/config/text_file.h"
#include "sim/interchange/hf_config.h"
#include "sim/model/model.h"

namespace foretrain {
namespace {

using config::MapReader;
using config::Node;
using config::Range;

// Wide enough for any transformer, narrow enough that h * q and h * f stay far below 2^63.
constexpr Range kLayers{1, 10'000};
constexpr Range kHidden{1, 1'000'000};
constexpr Range kHeads{1, 100'000};
constexpr Range kHeadDim{1, 16'384};
constexpr Range kFfn{1, 10'000'000};
constexpr Range kVocab{1, 100'000'000};
constexpr Range kPositions{0, 100'000'000};
constexpr double kMostParameters = 1e15;

constexpr Range kExperts{0, 10'000};
constexpr Range kLatent{1, 100'000};
constexpr Range kWindow{0, 100'000'000};

// "experts: 0", "mla: false" and an empty value ask for nothing.
bool asks_for_nothing(const Node& node) {
  if (node.is_null()) return true;
  return node.is_scalar() && (node.scalar() == "0" || node.scalar() == "false" || node.scalar() == "none");
}

enum class Arch { gpt, llama, moe, bert };

// Names every feature of the model that is not simulated. Returns whether there is one.
bool refuse_features(MapReader& reader, std::optional<Arch> arch, Diagnostics& diagnostics) {
  const int before = diagnostics.error_count();
  reader.node("hf");  // asks for nothing, or it was read before
  if (arch == Arch::bert) diagnostics.unsupported(reader.position_of("arch"), message("model.arch=bert"));
  return diagnostics.error_count() > before;
}

std::int64_t required(MapReader& reader, const char* key, Range range, bool insist) {
  if (insist) return reader.required_integer(key, range);
  return reader.integer(key, range).value_or(1);
}

// Whether the key is written and asks for something.
bool asked(MapReader& reader, const char* key) {
  const Node* value = reader.node(key);
  return value != nullptr && !asks_for_nothing(*value);
}

// The keys of latent attention decide the width of its heads.
void read_latent_attention(MapReader& reader, Model& model, Diagnostics& diagnostics) {
  if (!asked(reader, "mla")) return;
  MapReader map(*reader.node("mla"), diagnostics, "model.mla");
  LatentAttention latent;
  latent.q_lora = map.integer("q_lora", {0, 100'000}).value_or(0);
  latent.kv_lora = map.required_integer("kv_lora", kLatent);
  latent.qk_nope = map.required_integer("qk_nope", kLatent);
  latent.qk_rope = map.required_integer("qk_rope", kLatent);
  latent.v = map.required_integer("v", kLatent);
  map.finish();
  for (const char* key : {"head_dim", "kv_heads"}) {
    if (reader.has(key) &&
        reader.integer(key, kHeads) != (key[0] == 'k' ? model.heads : latent.qk_nope + latent.qk_rope))
      reader.error(key, message("{} follows from mla and heads; leave it out", key));
  }
  model.kv_heads = model.heads;
  model.head_dim = latent.qk_nope + latent.qk_rope;
  model.mla = latent;
}

// Groups of experts, of which a token visits a few.
void read_expert_groups(MapReader& reader, Model& model) {
  model.expert_groups = reader.integer("expert_groups", {1, kExperts.max}).value_or(1);
  model.top_k_groups = reader.integer("top_k_groups", {1, kExperts.max}).value_or(model.expert_groups);
  if (model.experts % model.expert_groups != 0) {
    reader.error("expert_groups",
                 message("expert_groups={} does not divide experts={}", model.expert_groups, model.experts));
    model.expert_groups = model.top_k_groups = 1;
  } else if (model.top_k_groups > model.expert_groups) {
    reader.error("top_k_groups", message("top_k_groups={} are more than the expert_groups={}", model.top_k_groups,
                                         model.expert_groups));
    model.top_k_groups = model.expert_groups;
  } else if (const std::int64_t within = model.experts / model.expert_groups * model.top_k_groups;
             model.top_k > within) {
    reader.error("top_k", message("top_k={} experts are more than the {} of top_k_groups={}", model.top_k, within,
                                  model.top_k_groups));
  }
}

// Experts: all keys need `experts`; where only expert layers exist, `ffn` may be left out.
void read_experts(MapReader& reader, Model& model, bool moe, bool insist) {
  model.experts = asked(reader, "experts") ? reader.integer("experts", kExperts).value_or(0) : 0;
  if (model.experts == 0) {
    if (moe && insist) reader.error("arch", message("arch moe needs 'experts', 'top_k' and 'expert_ffn'"));
    for (const char* key : {"top_k", "expert_groups", "top_k_groups", "expert_ffn", "shared_expert_ffn", "moe_every",
                            "first_dense_layers"}) {
      if (asked(reader, key)) {
        reader.error(key, message("model.{} says something of experts, but there is no 'experts'", key));
      }
    }
    return;
  }
  model.top_k = required(reader, "top_k", {1, static_cast<double>(model.experts)}, insist);
  read_expert_groups(reader, model);
  model.expert_ffn = required(reader, "expert_ffn", kFfn, insist);
  model.shared_expert_ffn = reader.integer("shared_expert_ffn", {0, kFfn.max}).value_or(0);
  model.moe_every = reader.integer("moe_every", kLayers).value_or(1);
  model.first_dense_layers = reader.integer("first_dense_layers", {0, kLayers.max}).value_or(0);
  if (insist && model.moe_every > model.layers) {
    reader.error("moe_every", message("moe_every={} leaves none of the {} layers with experts; legal: 1 to {}",
                                      model.moe_every, model.layers, model.layers));
  }
}

void read_window(MapReader& reader, Model& model) {
  model.window = asked(reader, "window") ? reader.integer("window", kWindow).value_or(0) : 0;
  if (model.window == 0 && asked(reader, "window_every")) {
    reader.error("window_every",
                 message("model.window_every says which layers are windowed, but there is no 'window'"));
  }
  model.window_every = reader.integer("window_every", kLayers).value_or(1);
}

void read_attention(MapReader& reader, Model& model, bool insist, Diagnostics& diagnostics) {
  model.heads = required(reader, "heads", kHeads, insist);
  read_window(reader, model);
  read_latent_attention(reader, model, diagnostics);
  if (model.mla) return;
  model.kv_heads = reader.integer("kv_heads", kHeads).value_or(model.heads);
  if (model.heads % model.kv_heads != 0) {
    reader.error("kv_heads", message("kv_heads={} does not divide heads={}; every key-value head serves equally "
                                     "many query heads",
                                     model.kv_heads, model.heads));
  }
  const std::optional<std::int64_t> head_dim = reader.integer("head_dim", kHeadDim);
  model.head_dim = head_dim.value_or(std::max<std::int64_t>(1, model.hidden / model.heads));
  if (insist && !head_dim && model.hidden % model.heads != 0) {
    reader.error("heads", message("heads={} does not divide hidden={}; give head_dim, or heads that divide it",
                                  model.heads, model.hidden));
  }
}

void check_count(MapReader& reader, const Model& model, Diagnostics& diagnostics) {
  const auto largest =
      static_cast<double>(std::max(model.layer_parameters(), model.layer_parameters({.experts = model.experts > 0})));
  const double count =
      static_cast<double>(model.layers + model.mtp) * largest + 2.0 * static_cast<double>(model.head_parameters());
  if (count > kMostParameters) {
    diagnostics.error(reader.position(), message("this model has about {} parameters; the most that can be "
                                                 "simulated is {}",
                                                 fmt::format("{:.1e}", count), fmt::format("{:.0e}", kMostParameters)));
    return;
  }
  const std::optional<double> published = reader.number("params_b", config::Unit::count, {1e-6, 1e6});
  if (!published) return;
  const double counted = static_cast<double>(model.parameters()) / 1e9;
  if (std::abs(counted / *published - 1.0) > 0.05) {
    diagnostics.warning(reader.position_of("params_b"),
                        message("params_b says {} billion parameters, but these dimensions give {}; check "
                                "layers, hidden, ffn, gated, kv_heads, vocab and tied_embeddings",
                                fmt::format("{:.4g}", *published), fmt::format("{:.4g}", counted)));
  }
}

// What a file in configs/models may say beside the shape; for people and for the catalogue.
void skip_catalogue_keys(MapReader& reader) {
  reader.text_list("aliases");
  reader.text("source");
  reader.text("checked");
}

std::optional<Model> read_map(const Node& node, const std::string& name, bool is_file, Diagnostics& diagnostics) {
  const int errors_before = diagnostics.error_count();
  MapReader reader(node, diagnostics, "model");
  if (is_file) skip_catalogue_keys(reader);
  const std::optional<std::string> own_name = reader.text("name");

  const std::optional<std::size_t> chosen = reader.choice("arch", {"gpt", "llama", "moe", "bert"});
  const std::optional<Arch> arch = chosen ? std::optional(static_cast<Arch>(*chosen)) : std::nullopt;
  const bool refused = refuse_features(reader, arch, diagnostics);
  const bool insist = !refused;  // a refused model is not also told what else it lacks
  if (insist && !reader.has("arch")) reader.required_text("arch");

  Model model;
  model.name = own_name.value_or(name);
  model.family = arch == Arch::gpt ? Model::Family::gpt : Model::Family::llama;
  const bool gpt = model.family == Model::Family::gpt;
  model.layers = required(reader, "layers", kLayers, insist);
  model.hidden = required(reader, "hidden", kHidden, insist);
  read_attention(reader, model, insist, diagnostics);
  read_experts(reader, model, arch == Arch::moe, insist);
  // A gated MLP has no customary width, so only the gpt family has a default. Where all layers have experts, no layer
  // uses it.
  const bool all_experts = model.experts > 0 && model.moe_every == 1 && model.first_dense_layers == 0;
  if (gpt || all_experts) {
    model.ffn = reader.integer("ffn", kFfn).value_or(all_experts ? model.expert_ffn : 4 * model.hidden);
  } else {
    model.ffn = required(reader, "ffn", kFfn, insist);
  }
  model.mtp = asked(reader, "mtp") ? reader.integer("mtp", {0, 16}).value_or(0) : 0;
  model.gated = reader.boolean("gated").value_or(!gpt);
  model.vocab = required(reader, "vocab", kVocab, insist);
  model.max_positions = reader.integer("max_positions", kPositions).value_or(0);
  model.tied_embeddings = reader.boolean("tied_embeddings").value_or(gpt);
  model.qkv_bias = reader.boolean("qkv_bias").value_or(false);
  model.parallel_block = reader.boolean("parallel_block").value_or(false);
  model.linear_biases = reader.boolean("linear_biases").value_or(gpt);
  model.norm_biases = reader.boolean("norm_biases").value_or(gpt);
  model.norms_per_layer = reader.integer("norms_per_layer", {1, 4}).value_or(model.parallel_block ? 1 : 2);
  model.embedding_norm = reader.boolean("embedding_norm").value_or(false);
  model.qk_norm = reader.boolean("qk_norm").value_or(false);
  if (refused) {
    reader.has("params_b");
  } else {
    check_count(reader, model, diagnostics);
  }
  reader.finish();
  if (diagnostics.error_count() > errors_before) return std::nullopt;
  return model;
}

// "7b", "1.3B", "560m": a size, not a name.
bool is_only_a_size(std::string_view name) {
  if (name.size() < 2) return false;
  const auto digit_or_point = [](char c) { return (c >= '0' && c <= '9') || c == '.'; };
  return std::string_view("bBmMtT").find(name.back()) != std::string_view::npos &&
         std::all_of(name.begin(), name.end() - 1, digit_or_point);
}

std::optional<Model> read_path(const Node& node, Diagnostics& diagnostics) {
  const std::filesystem::path path = config::path_named_by(node);
  const std::optional<Node> file = config::parse_yaml_file(path.string(), diagnostics);
  if (!file) return std::nullopt;
  return read_map(*file, path.stem().string(), true, diagnostics);
}

// A config.json is mostly in a folder named after the model.
std::string name_of_hf(const std::filesystem::path& path) {
  const std::string stem = path.stem().string();
  const std::string folder = path.has_parent_path() ? path.parent_path().filename().string() : "";
  return stem != "config" || folder.empty() ? stem : folder;
}

// `config` names a config.json of Hugging Face, or its folder; `over` are keys that win over it.
std::optional<Model> read_hf(const Node& config, const Node& over, Diagnostics& diagnostics) {
  std::filesystem::path path = config::path_named_by(config);
  std::error_code unreadable;
  if (std::filesystem::is_directory(path, unreadable)) path /= "config.json";
  const std::optional<Node> file = config::parse_yaml_file(path.string(), diagnostics);
  const std::optional<Node> shape = file ? model_of_hf_config(*file, diagnostics) : std::nullopt;
  return shape ? read_map(merge(*shape, over), name_of_hf(path), false, diagnostics) : std::nullopt;
}

std::optional<Model> read_name(const Node& node, const std::string& models_folder, Diagnostics& diagnostics) {
  const std::string& asked = node.scalar();
  const config::Catalogue catalogue(models_folder, "model");
  const std::optional<config::Catalogue::Found> found = catalogue.find(asked, node.position, diagnostics);
  if (!found) return std::nullopt;
  if (is_only_a_size(asked)) {
    diagnostics.note(node.position,
                     message("'{}' is taken as {}; name the model to choose another", asked, found->name));
  }
  std::optional<Model> model = read_map(*found->node, found->name, true, diagnostics);
  if (model) model->name = found->name;
  return model;
}

}  // namespace

std::optional<Model> read_model(const Node& node, const std::string& models_folder, Diagnostics& diagnostics) {
  if (const Node* hf = node.find("hf"); hf != nullptr && !asks_for_nothing(*hf)) {
    Node over = node;
    std::erase_if(over.map(), [](const Node::Entry& entry) { return entry.key == "hf"; });
    if (!MapReader(node, diagnostics, "model").text("hf")) return std::nullopt;
    return read_hf(*hf, over, diagnostics);
  }
  if (node.is_map()) return read_map(node, "inline", false, diagnostics);
  if (!node.is_scalar() || node.scalar().empty()) {
    diagnostics.error(node.position,
                      message("model must be a name of the catalogue, a model file or a map of its dimensions"));
    return std::nullopt;
  }
  const std::string& text = node.scalar();
  if (text.ends_with(".yaml") || text.ends_with(".yml")) return read_path(node, diagnostics);
  if (text.ends_with(".json")) return read_hf(node, Node{node.position, Node::Map{}, false}, diagnostics);
  return read_name(node, models_folder, diagnostics);
}

}  // namespace foretrain
