#include <algorithm>
#include <limits>

#include "sim/base/lower_case.h"
#include "sim/software/read_experts.h"
#include "sim/software/read_offers.h"
#include "sim/software/software.h"

namespace foretrain {
namespace {

using config::MapReader;
using config::Node;
using config::Range;
using config::Unit;

constexpr Range kPasses{0, 10'000};    // reads and writes of a tensor
constexpr Range kHostMs{0, 60'000};    // a minute for one layer, micro-batch or step
constexpr Range kBytesEach{0, 1'000};  // per parameter, gradient or logit
constexpr Range kBufferBytes{0, 1e12};
constexpr Range kShare{0, 1};

void set(bool& field, std::optional<bool> value) { field = value.value_or(field); }
void set(double& field, std::optional<double> value) { field = value.value_or(field); }
void set(int& field, std::optional<std::int64_t> value) { field = static_cast<int>(value.value_or(field)); }

void read_passes(MapReader& reader, const char* key, Software::ElementwisePasses& passes, Diagnostics& diagnostics) {
  const Node* node = reader.node(key);
  if (node == nullptr) return;
  MapReader map(*node, diagnostics, key);
  set(passes.hidden, map.number("hidden", Unit::count, kPasses));
  set(passes.attention, map.number("attention", Unit::count, kPasses));
  set(passes.ffn, map.number("ffn", Unit::count, kPasses));
  set(passes.kernels, map.integer("kernels", {0, 100'000}));
  map.finish();
}

void read_state(MapReader& reader, const char* key, std::optional<Software::StateBytes>& state,
                Diagnostics& diagnostics) {
  const Node* node = reader.node(key);
  if (node == nullptr) return;
  MapReader map(*node, diagnostics, key);
  Software::StateBytes bytes;
  bytes.weights = map.required_number("weights", Unit::count, kBytesEach);
  bytes.gradients = map.required_number("gradients", Unit::count, kBytesEach);
  bytes.optimizer = map.required_number("optimizer", Unit::count, kBytesEach);
  bytes.step_extra = map.number("step_extra", Unit::count, kBytesEach).value_or(0);
  map.finish();
  state = bytes;
}

void read_kernels(MapReader& reader, Software& s, Diagnostics& diagnostics) {
  read_passes(reader, "forward", s.forward, diagnostics);
  read_passes(reader, "backward", s.backward, diagnostics);
  set(s.fused_softmax, reader.boolean("fused_softmax"));
  set(s.fused_softmax_multiple, reader.integer("fused_softmax_multiple", {1, 1'024}));
  set(s.unfused_softmax_forward_ms, reader.number("unfused_softmax_forward_ms", Unit::count, kHostMs));
  set(s.unfused_softmax_backward_ms, reader.number("unfused_softmax_backward_ms", Unit::count, kHostMs));
  set(s.fp8_input_cast_bytes, reader.number("fp8_input_cast_bytes", Unit::count, kBytesEach));
  set(s.fp8_gradient_cast_bytes, reader.number("fp8_gradient_cast_bytes", Unit::count, kBytesEach));
  set(s.loss_bytes_per_logit, reader.number("loss_bytes_per_logit", Unit::count, kBytesEach));
  set(s.loss_live_bytes_per_logit, reader.number("loss_live_bytes_per_logit", Unit::count, kBytesEach));
  set(s.loss_kept_bytes_per_logit, reader.number("loss_kept_bytes_per_logit", Unit::count, kBytesEach));
  set(s.pads_vocabulary, reader.boolean("pads_vocabulary"));
  set(s.odd_vocabulary_slowdown, reader.number("odd_vocabulary_slowdown", Unit::count, {1, 100}));
}

void read_host(MapReader& reader, Software& s) {
  set(s.host_forward_ms, reader.number("host_forward_ms", Unit::count, kHostMs));
  set(s.host_backward_ms, reader.number("host_backward_ms", Unit::count, kHostMs));
  set(s.host_tensor_parallel_ms, reader.number("host_tensor_parallel_ms", Unit::count, kHostMs));
  set(s.host_zero3_hook_ms, reader.number("host_zero3_hook_ms", Unit::count, kHostMs));
  set(s.micro_batch_overhead_ms, reader.number("micro_batch_overhead_ms", Unit::count, kHostMs));
  set(s.step_overhead_ms, reader.number("step_overhead_ms", Unit::count, kHostMs));
  set(s.jitter_per_doubling, reader.number("jitter_per_doubling", Unit::count, kShare));
}

void read_parallelism(MapReader& reader, Software& s) {
  set(s.gradient_bytes, reader.number("gradient_bytes", Unit::count, {1, 8}));
  set(s.overlap_grad_reduce, reader.boolean("overlap_grad_reduce"));
  set(s.overlap_param_gather, reader.boolean("overlap_param_gather"));
  set(s.bucket_bytes, reader.number("bucket_bytes", Unit::bytes, {1, 1e12}));
  if (reader.boolean("one_bucket").value_or(false)) s.bucket_bytes = std::numeric_limits<double>::infinity();
  set(s.bucket_bytes_per_rank, reader.number("bucket_bytes_per_rank", Unit::bytes, kBufferBytes));
  set(s.one_bucket_without_overlap, reader.boolean("one_bucket_without_overlap"));
  set(s.communication_buffer_bytes, reader.number("communication_buffer_bytes", Unit::bytes, kBufferBytes));
  set(s.zero1_all_reduce, reader.boolean("zero1_all_reduce"));
  set(s.zero2_all_reduce, reader.boolean("zero2_all_reduce"));
  set(s.zero_bucket_copy_bytes, reader.number("zero_bucket_copy_bytes", Unit::count, kBytesEach));
  set(s.zero1_return_by_broadcast, reader.boolean("zero1_return_by_broadcast"));
  set(s.zero2_reduce_each_micro_batch, reader.boolean("zero2_reduce_each_micro_batch"));
  set(s.zero3_gathers_with_recompute, reader.integer("zero3_gathers_with_recompute", {1, 10}));
  set(s.zero3_overlap, reader.boolean("zero3_overlap"));
  set(s.tp_backward_overlap, reader.boolean("tp_backward_overlap"));
  set(s.cp_exposed, reader.number("cp_exposed", Unit::count, {0, 1}));
  set(s.cp_imbalance, reader.number("cp_imbalance", Unit::count, {1, 2}));
  set(s.zero3_single_network_flow, reader.boolean("zero3_single_network_flow"));
  set(s.zeropp, reader.boolean("zeropp"));
  set(s.zeropp_rewrites_second_copy, reader.boolean("zeropp_rewrites_second_copy"));
  set(s.zero3_accumulates_whole, reader.boolean("zero3_accumulates_whole"));
  set(s.zero3_prefetch_layers, reader.integer("zero3_prefetch_layers", {0, 1'000}));
  set(s.pipeline_scatter_gather, reader.boolean("pipeline_scatter_gather"));
  set(s.pipeline_overlap_interleaved, reader.boolean("pipeline_overlap_interleaved"));
  set(s.interleaved_all_forward_first, reader.boolean("interleaved_all_forward_first"));
  set(s.sharded_pipeline_gathers_once, reader.boolean("sharded_pipeline_gathers_once"));
  set(s.optimizer_post_validated, reader.boolean("optimizer_post_validated"));
  set(s.tp_overlap, reader.boolean("tp_overlap"));
  set(s.tp_overlap_hidden, reader.number("tp_overlap_hidden", Unit::count, kShare));
}

void read_peft(MapReader& reader, Software& s, Diagnostics& diagnostics) {
  set(s.lora_fused, reader.boolean("lora_fused"));
  set(s.lora_adapter_bytes, reader.number("lora_adapter_bytes", Unit::count, {2, 4}));
  set(s.lora_merged_projections, reader.boolean("lora_merged_projections"));
  if (const Node* targets = reader.node("lora_targets")) s.lora_targets = *targets;
  set(s.zero3_holds_frozen_inputs, reader.boolean("zero3_holds_frozen_inputs"));
  set(s.zero3_gradients_of_frozen, reader.boolean("zero3_gradients_of_frozen"));
  set(s.unquantised_bytes, reader.number("unquantised_bytes", Unit::count, kBytesEach));
  set(s.quantises_head, reader.boolean("quantises_head"));
  set(s.quantised_keeps_input, reader.boolean("quantised_keeps_input"));
  set(s.zero3_shards_quantised, reader.boolean("zero3_shards_quantised"));
  read_state(reader, "state_adapter", s.state_adapter, diagnostics);
}

void read_memory(MapReader& reader, Software& s, Diagnostics& diagnostics) {
  set(s.rmsnorm_kept_bytes, reader.number("rmsnorm_kept_bytes", Unit::count, kBytesEach));
  set(s.layernorm_kept_bytes, reader.number("layernorm_kept_bytes", Unit::count, kBytesEach));
  set(s.gated_kept_bytes, reader.number("gated_kept_bytes", Unit::count, kBytesEach));
  set(s.gelu_kept_bytes, reader.number("gelu_kept_bytes", Unit::count, kBytesEach));
  set(s.keeps_activation_output, reader.boolean("keeps_activation_output"));
  set(s.dropout_masks, reader.boolean("dropout_masks"));
  set(s.fp8_kept_input_bytes, reader.number("fp8_kept_input_bytes", Unit::count, kBytesEach));
  set(s.recompute_stops_early, reader.boolean("recompute_stops_early"));
  set(s.selective_is_every_other_layer, reader.boolean("selective_is_every_other_layer"));
  set(s.weight_bytes, reader.number("weight_bytes", Unit::count, kBytesEach));
  set(s.gradient_store_bytes, reader.number("gradient_store_bytes", Unit::count, kBytesEach));
  set(s.optimizer_bytes, reader.number("optimizer_bytes", Unit::count, kBytesEach));
  set(s.step_extra_bytes, reader.number("step_extra_bytes", Unit::count, kBytesEach));
  read_state(reader, "state_zero0", s.state_zero0, diagnostics);
  read_state(reader, "state_zero0_fp16", s.state_zero0_fp16, diagnostics);
  read_state(reader, "state_zero3", s.state_zero3, diagnostics);
  if (const auto bytes = reader.number("bf16_gradient_store_bytes", Unit::count, kBytesEach)) {
    s.bf16_gradient_store_bytes = bytes;
  }
  set(s.fp8_weight_copy_bytes, reader.number("fp8_weight_copy_bytes", Unit::count, kBytesEach));
  set(s.gradients_on_demand, reader.boolean("gradients_on_demand"));
  set(s.bucket_copy_of_gradients, reader.boolean("bucket_copy_of_gradients"));
  set(s.zero3_max_live_parameters, reader.number("zero3_max_live_parameters", Unit::count, kBufferBytes));
  set(s.zero3_step_group_parameters, reader.number("zero3_step_group_parameters", Unit::count, kBufferBytes));
  set(s.zero3_pipeline_extra_bytes, reader.number("zero3_pipeline_extra_bytes", Unit::count, kBytesEach));
  set(s.optimizer_traffic_bytes, reader.number("optimizer_traffic_bytes", Unit::count, kBytesEach));
  set(s.gradient_traffic_bytes, reader.number("gradient_traffic_bytes", Unit::count, kBytesEach));
  set(s.device_over_allocated, reader.number("device_over_allocated", Unit::count, {1, 10}));
  set(s.reserved_over_allocated, reader.number("reserved_over_allocated", Unit::count, {1, 10}));
  set(s.activation_fragmentation, reader.number("activation_fragmentation", Unit::count, kShare));
  set(s.context_gb, reader.number("context_gb", Unit::count, {0, 100}));
  set(s.communicator_gb, reader.number("communicator_gb", Unit::count, {0, 100}));
}

struct Variant {
  std::string mentions, profile;
  SourcePosition position;
};

std::vector<Variant> read_variants(MapReader& reader, Diagnostics& diagnostics) {
  std::vector<Variant> variants;
  const Node* list = reader.node("variants");
  if (present(list) == nullptr) return variants;
  if (!list->is_sequence()) {
    reader.error("variants", message("variants must be a list of {{mentions: TEXT, profile: NAME}}"));
    return variants;
  }
  for (const Node& item : list->sequence()) {
    MapReader map(item, diagnostics, "variants");
    Variant variant{map.required_text("mentions"), map.required_text("profile"), map.position_of("profile")};
    map.finish();
    if (!variant.mentions.empty()) variants.push_back(std::move(variant));
  }
  return variants;
}

void read_offload(MapReader& reader, Software::Offload& offload, Diagnostics& diagnostics) {
  const Node* node = reader.node("offload");
  if (node == nullptr) return;
  MapReader map(*node, diagnostics, "offload");
  set(offload.optimizer, map.boolean("optimizer"));
  set(offload.params, map.boolean("params"));
  set(offload.activations, map.boolean("activations"));
  set(offload.together, map.boolean("together"));
  set(offload.layer_inputs_only, map.boolean("layer_inputs_only"));
  set(offload.nvme, map.boolean("nvme"));
  if (const auto adam = map.choice("adam", {"vectorised", "torch", "torch-2020", "gpu"}))
    offload.adam = static_cast<Software::Offload::Adam>(*adam);
  set(offload.pinned, map.boolean("pinned"));
  set(offload.pinned_rounds_up, map.boolean("pinned_rounds_up"));
  set(offload.gradients_leave, map.boolean("gradients_leave"));
  set(offload.gradients_read_back, map.boolean("gradients_read_back"));
  set(offload.overlap_gradients, map.boolean("overlap_gradients"));
  set(offload.whole_blocks, map.boolean("whole_blocks"));
  set(offload.weights_are_masters, map.boolean("weights_are_masters"));
  set(offload.threads_per_rank, map.integer("threads_per_rank", {0, 4096}));
  set(offload.stage3_pass_bytes, map.number("stage3_pass_bytes", Unit::count, kBytesEach));
  set(offload.overlap_nvme, map.boolean("overlap_nvme"));
  set(offload.host_gradient_bytes, map.number("host_gradient_bytes", Unit::count, kBytesEach));
  set(offload.host_process_gb, map.number("host_process_gb", Unit::count, {0, 1e4}));
  map.finish();
}

// Everything of `node` over what `profile` already says. Returns the variants of this file.
std::vector<Variant> read_profile(const Node& node, Software& profile, Diagnostics& diagnostics) {
  MapReader reader(node, diagnostics, "software profile");
  reader.text("name");
  reader.text("inherits");
  reader.text_list("aliases");
  profile.fitted_as = reader.text("fitted_as").value_or("");
  profile.source = reader.text("source").value_or(profile.source);
  if (const auto launcher = reader.choice("launcher", {"other", "megatron", "deepspeed"})) {
    profile.launcher = static_cast<Software::Launcher>(*launcher);
  }
  read_kernels(reader, profile, diagnostics);
  read_host(reader, profile);
  read_parallelism(reader, profile);
  read_peft(reader, profile, diagnostics);
  read_expert_habits(reader, profile, diagnostics);
  read_memory(reader, profile, diagnostics);
  read_offload(reader, profile.offload, diagnostics);
  read_offers(reader, profile, diagnostics);
  std::vector<Variant> variants = read_variants(reader, diagnostics);
  reader.finish();
  return variants;
}

// The files a profile is made of, the profile itself first. Empty if one is unknown or they go in a circle.
std::vector<config::Catalogue::Found> line_of_inheritance(const config::Catalogue& catalogue, std::string_view name,
                                                          SourcePosition asked_at, Diagnostics& diagnostics) {
  std::vector<config::Catalogue::Found> line;
  std::string next(name);
  SourcePosition position = std::move(asked_at);
  while (true) {
    std::optional<config::Catalogue::Found> found = catalogue.find(next, position, diagnostics);
    if (!found) return {};
    const bool seen = std::any_of(line.begin(), line.end(), [&](const auto& f) { return f.name == found->name; });
    if (seen) {
      diagnostics.error(position, message("software profile '{}' inherits from itself", found->name));
      return {};
    }
    line.push_back(std::move(*found));
    const Node* parent = line.back().node->find("inherits");
    if (parent == nullptr || !parent->is_scalar()) return line;  // a wrong type is reported when the file is read
    next = parent->scalar();
    position = parent->position;
  }
}

struct Loaded {
  Software profile;
  std::vector<Variant> variants;
};

std::optional<Loaded> load(const config::Catalogue& catalogue, std::string_view name, SourcePosition asked_at,
                           Diagnostics& diagnostics) {
  const int errors_before = diagnostics.error_count();
  const auto line = line_of_inheritance(catalogue, name, std::move(asked_at), diagnostics);
  if (line.empty()) return std::nullopt;
  Loaded loaded;
  for (auto file = line.rbegin(); file != line.rend(); ++file) {
    loaded.variants = read_profile(*file->node, loaded.profile, diagnostics);  // only those of the profile itself stay
  }
  loaded.profile.name = line.front().name;
  if (loaded.profile.fitted_as.empty()) loaded.profile.fitted_as = loaded.profile.name;
  loaded.profile.family = line.back().name;
  if (diagnostics.error_count() > errors_before) return std::nullopt;
  return loaded;
}

}  // namespace

std::optional<Software> load_software(const std::string& software_folder, std::string_view name,
                                      SourcePosition asked_at, Diagnostics& diagnostics, std::string_view version) {
  const config::Catalogue catalogue(software_folder, "software profile");
  std::optional<Loaded> loaded = load(catalogue, name, std::move(asked_at), diagnostics);
  if (!loaded) return std::nullopt;
  const std::string described = lower_case(std::string(version));
  const auto variant = std::find_if(loaded->variants.begin(), loaded->variants.end(), [&](const Variant& v) {
    return described.find(lower_case(v.mentions)) != std::string::npos;
  });
  if (variant == loaded->variants.end()) {
    choose_expert_variant(loaded->profile, described);
    choose_offer_variant(loaded->profile, described);
    return std::move(loaded->profile);
  }
  // One step only: a variant is a full profile, whose own variants are not asked.
  std::optional<Loaded> chosen = load(catalogue, variant->profile, variant->position, diagnostics);
  if (!chosen) return std::nullopt;
  choose_expert_variant(chosen->profile, described);
  choose_offer_variant(chosen->profile, described);
  return std::move(chosen->profile);
}

}  // namespace foretrain
