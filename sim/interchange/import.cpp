#include "sim/interchange/import.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <memory>

#include "sim/base/lower_case.h"
#include "sim/config/write.h"
#include "sim/interchange/import_rules.h"

namespace foretrain {
namespace {

using config::Node;

constexpr std::size_t kMostKeys = 1'000;

const Imported::Taken* find_taken(const Imported& imported, std::string_view path) {
  const auto found = std::find_if(imported.taken.rbegin(), imported.taken.rend(),
                                  [&](const Imported::Taken& t) { return t.path == path; });
  return found == imported.taken.rend() ? nullptr : &*found;
}

std::optional<std::int64_t> whole(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault != std::errc{} || end != text.data() + text.size() || value < 1 || value > 100'000'000) return std::nullopt;
  return value;
}

std::optional<std::int64_t> whole_at(const Imported& imported, std::string_view path) {
  const Imported::Taken* taken = find_taken(imported, path);
  return taken == nullptr ? std::nullopt : whole(taken->text);
}

void translate(const std::string& key, const Node& value, std::span<const ImportRule> rules, Imported& imported) {
  if (imported.taken.size() + imported.ignored.size() >= kMostKeys) return;
  const auto rule = std::find_if(rules.begin(), rules.end(), [&](const ImportRule& r) { return key == r.theirs; });
  if (value.is_map() && rule == rules.end()) {
    for (const Node::Entry& entry : value.map()) translate(key + "." + entry.key, entry.value, rules, imported);
    return;
  }
  if (rule == rules.end() || !value.is_scalar())
    return imported.ignored.push_back({key, "says nothing about the step"});
  if (lower_case(value.scalar()) == "auto") return imported.ignored.push_back({key, "auto: left to the trainer"});
  if (rule->words.empty()) return imported.taken.push_back({key, rule->path, value.scalar()});
  const auto word = std::find_if(rule->words.begin(), rule->words.end(),
                                 [&](const auto& w) { return lower_case(value.scalar()) == w.first; });
  if (word == rule->words.end()) {
    imported.ignored.push_back({key, "has no counterpart"});
  } else if (word->second[0] != '\0') {
    imported.taken.push_back({key, rule->path, word->second});
  }
}

void translate_map(const Node& root, std::span<const ImportRule> rules, Imported& imported) {
  for (const Node::Entry& entry : root.map()) translate(entry.key, entry.value, rules, imported);
}

// Full recompute by blocks is of so many layers of every chunk (Megatron-Core, TransformerBlock._checkpointed_forward).
void combine_recompute(Imported& imported) {
  const Imported::Taken* granularity = find_taken(imported, "plan.recompute");
  const Imported::Taken* method = find_taken(imported, "import.recompute_method");
  const auto layers = whole_at(imported, "import.recompute_layers");
  if (!granularity || granularity->text != "full" || !method || lower_case(method->text) != "block" || !layers) return;
  std::erase_if(imported.taken, [](const Imported::Taken& t) { return t.path == "plan.recompute"; });
  const std::int64_t chunks = whole_at(imported, "plan.vpp").value_or(1);
  imported.taken.push_back({"recompute_num_layers", "plan.recompute.blocks", fmt::format("{}", *layers * chunks)});
}

// Values that need several of theirs: GPUs, the global batch, chunks of a pipeline, recompute. What only served for
// them is taken out.
void combine(const std::vector<Imported::Taken>& beside, Imported& imported) {
  imported.taken.insert(imported.taken.end(), beside.begin(), beside.end());
  const auto put = [&](std::string theirs, std::string path, std::int64_t value) {
    imported.taken.push_back({std::move(theirs), std::move(path), fmt::format("{}", value)});
  };
  const auto at = [&](std::string_view path) { return whole_at(imported, path).value_or(1); };
  const auto per_node = whole_at(imported, "import.gpus_per_node"), nodes = whole_at(imported, "import.nodes");
  // One rank a copy is how DeepSpeed says that there is none.
  if (const auto ranks = whole_at(imported, "import.second_copy_ranks"); ranks.value_or(1) > 1) {
    imported.taken.push_back({"zero_hpz_partition_size", "plan.zeropp.secondary", "true"});
    put("zero_hpz_partition_size", "plan.zeropp.group", *ranks);
  }
  if (!find_taken(imported, "cluster.gpus") && per_node) {
    put("GPUs of all nodes", "cluster.gpus", *per_node * nodes.value_or(1));
    if (nodes.value_or(1) > 1) put("GPUs of a node", "cluster.gpus_per_node", *per_node);
  }
  if (const auto stages = whole_at(imported, "import.stages")) put("pipe_parallel_size", "plan.pp", *stages);
  const auto gpus = whole_at(imported, "cluster.gpus"), micro = whole_at(imported, "plan.micro_batch");
  const std::int64_t in_a_replica = at("plan.tp") * at("plan.pp") * at("plan.cp");
  const bool divides = gpus && *gpus % in_a_replica == 0;
  if (!find_taken(imported, "train.global_batch") && micro && divides) {
    put("micro-batch x accumulation x data-parallel ranks", "train.global_batch",
        *micro * at("import.accumulation") * (*gpus / in_a_replica));
  } else if (const Imported::Taken* steps = find_taken(imported, "import.accumulation");
             steps != nullptr && !find_taken(imported, "train.global_batch")) {
    imported.ignored.push_back(
        {steps->theirs, "needs the micro-batch and the number of GPUs; give --micro-batch and --gpus"});
  }
  const auto layers = whole_at(imported, "model.layers"), chunk = whole_at(imported, "import.layers_of_chunk");
  if (layers && chunk && *layers % (at("plan.pp") * *chunk) == 0) {
    put("layers of a virtual stage", "plan.vpp", *layers / (at("plan.pp") * *chunk));
  }
  combine_recompute(imported);
  // Megatron's own sharding needs the flag of the optimizer's as well.
  const auto strategy = [](const Imported::Taken& t) { return t.theirs == "data_parallel_sharding_strategy"; };
  if (std::any_of(imported.taken.begin(), imported.taken.end(), strategy)) {
    std::erase_if(imported.taken, [](const Imported::Taken& t) { return t.theirs == "use_distributed_optimizer"; });
  }
  if (const Imported::Taken* quantised = find_taken(imported, "import.quantised")) {
    const std::string theirs = quantised->theirs, format = quantised->text;
    imported.taken.push_back({theirs, "train.peft.kind", "qlora"});
    imported.taken.push_back({theirs, "train.peft.quant", format});
  }
  const bool has_model = std::any_of(imported.taken.begin(), imported.taken.end(),
                                     [](const Imported::Taken& t) { return t.path.starts_with("model."); });
  if (has_model && !find_taken(imported, "model.hf")) {
    const bool rms = find_taken(imported, "import.rms_norm") != nullptr;
    const std::string arch = find_taken(imported, "model.experts") ? "moe" : rms ? "llama" : "gpt";
    imported.taken.push_back({"normalization and experts", "model.arch", arch});
  }
  std::erase_if(imported.taken, [](const Imported::Taken& t) { return t.path.starts_with("import."); });
}

void name_framework(const std::string& profile, Imported& imported) {
  if (!find_taken(imported, "software")) imported.taken.push_back({imported.format, "software", profile});
}

bool has(const Node& root, std::string_view key) { return root.find(key) != nullptr; }

// A folder of a model says more than its name.
void prefer_local_models(Imported& imported) {
  for (Imported::Taken& t : imported.taken) {
    if (t.path == "model" && (t.text.starts_with('/') || t.text.starts_with('.'))) t.path = "model.hf";
  }
}

// GPT-NeoX takes "pipe-parallel-size" for "pipe_parallel_size"; no other tool has '-' in its keys.
Node with_underscores(const Node& root) {
  Node map = config::empty_map();
  map.position = root.position;
  for (const Node::Entry& entry : root.map()) {
    std::string key = entry.key;
    std::replace(key.begin(), key.end(), '-', '_');
    config::set_entry(map, key, entry.value);
  }
  return map;
}

// A tool's configuration file: what tells it from others, its keys, and the profile of the framework that runs it.
struct Format {
  const char* name;
  bool (*is_this)(const Node& root);
  std::span<const ImportRule> (*rules)();
  const char* (*profile)(const Node& root);
};

const char* trainer_profile(const Node& root) { return has(root, "deepspeed") ? "hf-deepspeed" : "hf-trainer"; }

// The first that a file may be.
const Format kFormats[] = {
    {"GPT-NeoX configuration",
     [](const Node& root) { return has(root, "pipe_parallel_size") || has(root, "model_parallel_size"); }, neox_rules,
     [](const Node&) { return "gpt-neox"; }},
    {"DeepSpeed configuration",
     [](const Node& root) {
       return has(root, "zero_optimization") || has(root, "train_micro_batch_size_per_gpu") ||
              has(root, "train_batch_size");
     },
     deepspeed_rules, [](const Node&) { return "deepspeed"; }},
    {"accelerate configuration",
     [](const Node& root) { return has(root, "compute_environment") || has(root, "distributed_type"); },
     accelerate_rules, [](const Node&) { return "hf-trainer"; }},
    {"axolotl configuration", [](const Node& root) { return has(root, "base_model"); }, axolotl_rules, trainer_profile},
    {"LLaMA-Factory configuration",
     [](const Node& root) { return has(root, "finetuning_type") || has(root, "cutoff_len"); }, trainer_rules,
     [](const Node&) { return "llama-factory"; }},
    {"configuration of the Hugging Face Trainer",
     [](const Node& root) { return has(root, "model_name_or_path") || has(root, "per_device_train_batch_size"); },
     trainer_rules, trainer_profile},
};

// "--seq-length 4096", "--bf16", "--deepspeed=ds.json" as a map of keys with '_'.
Node flags_of(const std::vector<std::string>& words) {
  Node map = config::empty_map();
  for (std::size_t i = 0; i < words.size() && map.map().size() < kMostKeys; ++i) {
    if (!words[i].starts_with("--") || words[i].size() < 3) continue;
    const std::size_t equals = words[i].find('=');
    std::string key = words[i].substr(2, equals == std::string::npos ? equals : equals - 2);
    std::replace(key.begin(), key.end(), '-', '_');
    std::string value = "true";
    if (equals != std::string::npos) {
      value = words[i].substr(equals + 1);
    } else if (i + 1 < words.size() && !words[i + 1].starts_with("--")) {
      value = words[++i];
    }
    config::set_entry(map, key, Node{{}, value, false});
  }
  return map;
}

}  // namespace

std::optional<Imported> import_file(const Node& file, const std::vector<Imported::Taken>& beside,
                                    Diagnostics& diagnostics) {
  const Node root = file.is_map() ? with_underscores(file) : file;
  const auto format = std::find_if(std::begin(kFormats), std::end(kFormats),
                                   [&](const Format& f) { return root.is_map() && f.is_this(root); });
  if (format == std::end(kFormats)) {
    diagnostics.error(root.position,
                      message("this is no configuration that is known; known are DeepSpeed JSON, accelerate YAML, and "
                              "YAML of the Hugging Face Trainer, LLaMA-Factory, axolotl and GPT-NeoX"));
    return std::nullopt;
  }
  Imported imported;
  imported.format = format->name;
  translate_map(root, format->rules(), imported);
  name_framework(format->profile(root), imported);
  prefer_local_models(imported);
  combine(beside, imported);
  return imported;
}

std::optional<Imported> import_command(const std::vector<std::string>& words,
                                       const std::vector<Imported::Taken>& beside, Diagnostics& diagnostics) {
  const Node flags = flags_of(words);
  const bool megatron =
      has(flags, "tensor_model_parallel_size") || has(flags, "num_attention_heads") || has(flags, "micro_batch_size");
  Imported imported;
  imported.format = megatron ? "command line of Megatron" : "command line of the Hugging Face Trainer";
  translate_map(flags, command_rules(megatron), imported);
  if (imported.taken.empty()) {
    diagnostics.error({std::make_shared<const std::string>("command line"), 0, 0},
                      message("no flag of Megatron, the Hugging Face Trainer or torchrun is known here; give the whole "
                              "command after --"));
    return std::nullopt;
  }
  name_framework(megatron ? "megatron-core" : has(flags, "deepspeed") ? "hf-deepspeed" : "hf-trainer", imported);
  prefer_local_models(imported);
  combine(beside, imported);
  return imported;
}

}  // namespace foretrain
