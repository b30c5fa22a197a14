#include "sim/hardware/gpu.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/config/reader.h"
#include "sim/hardware/achieved_rates.h"

namespace foretrain {
namespace {

using config::MapReader;
using config::Node;
using config::Unit;

// The map under `key`, or nullptr if it is null or absent; absent is an error where it is `required`.
const Node* sub_map(MapReader& parent, std::string_view key, bool required) {
  const Node* node = parent.node(key);
  if (present(node) != nullptr) return node;
  if (required) parent.error(key, message("{} is missing; it must be a map", key));
  return nullptr;
}

void read_memory(MapReader& file, Gpu& gpu, Diagnostics& diagnostics) {
  const Node* node = sub_map(file, "memory", true);
  if (node == nullptr) return;
  MapReader memory(*node, diagnostics, "memory");
  gpu.memory = {memory.required_number("capacity_mib", Unit::count, {1, 1e9}) * kMiB};
  gpu.nominal_memory_gb = memory.required_number("nominal_gb", Unit::count, {0.001, 1e6});
  gpu.memory_bandwidth = {memory.required_number("bandwidth_gbs", Unit::bytes_rate, {1e9, 1e15})};
  memory.text("type");
  memory.finish();
}

void read_dense_rates(MapReader& file, Gpu& gpu, Diagnostics& diagnostics) {
  const Node* node = sub_map(file, "dense_tflops", true);
  if (node == nullptr) return;
  MapReader rates(*node, diagnostics, "dense_tflops");
  for (int i = 0; i < kPrecisions; ++i) {
    const std::string key = to_string(static_cast<Precision>(i));
    if (const auto rate = rates.number(key, Unit::teraflops, {1e9, 1e18})) {
      gpu.dense_rate[static_cast<std::size_t>(i)] = FlopsPerSecond{*rate};
    }
  }
  rates.finish();
}

void read_nvlink(MapReader& file, Gpu& gpu, Diagnostics& diagnostics) {
  const Node* node = sub_map(file, "nvlink", false);
  if (node == nullptr) return;
  MapReader map(*node, diagnostics, "nvlink");
  Gpu::NvLink link;
  link.xgmi = map.choice("kind", {"nvlink", "xgmi"}).value_or(0) == 1;
  link.generation = static_cast<int>(map.required_integer("generation", {1, 9}));
  link.links = static_cast<int>(map.required_integer("links", {1, 256}));
  link.per_direction = {map.required_number("gbs_per_direction", Unit::bytes_rate, {1e8, 1e14})};
  link.bridge = map.choice("form", {"board", "bridge"}).value_or(0) == 1;
  link.layouts = map.text_list("layouts").value_or(std::vector<std::string>{});
  map.finish();
  gpu.nvlink = std::move(link);
}

void read_pcie(MapReader& file, Gpu& gpu, Diagnostics& diagnostics) {
  const Node* node = sub_map(file, "pcie", true);
  if (node == nullptr) return;
  MapReader pcie(*node, diagnostics, "pcie");
  gpu.pcie_generation = static_cast<int>(pcie.required_integer("generation", {1, 7}));
  gpu.pcie_lanes = static_cast<int>(pcie.required_integer("lanes", {1, 32}));
  pcie.finish();
}

std::string read_architecture(MapReader& file) {
  const std::vector<std::string> known = {"volta",     "turing", "ampere", "ada",   "hopper",
                                          "blackwell", "cdna1",  "cdna2",  "cdna3", "gcn5"};
  file.required_text("architecture");
  const auto index = file.choice("architecture", known);
  return index ? known[*index] : "";
}

// The datasheet part of a catalogue file. The name of the file of achieved rates is left to the caller.
Gpu read_datasheet(MapReader& file, std::string name, Diagnostics& diagnostics) {
  Gpu gpu;
  gpu.name = std::move(name);
  gpu.vendor = file.required_text("vendor");
  gpu.architecture = read_architecture(file);
  read_memory(file, gpu, diagnostics);
  read_dense_rates(file, gpu, diagnostics);
  gpu.sm_count = static_cast<int>(file.required_integer("sm_count", {1, 1e5}));
  gpu.l2 = {file.required_number("l2_mb", Unit::count, {0.01, 1e6}) * kMiB};
  read_nvlink(file, gpu, diagnostics);
  read_pcie(file, gpu, diagnostics);
  constexpr config::Range kC2c{1e9, 1e13};
  gpu.c2c = {file.number("c2c_gbs", Unit::bytes_rate, kC2c).value_or(0)};
  gpu.c2c_copy = {std::min(gpu.c2c.value, file.number("c2c_copy_gbs", Unit::bytes_rate, kC2c).value_or(gpu.c2c.value))};
  gpu.tdp_watts = file.required_number("tdp_w", Unit::watts, {1, 1e5});
  gpu.drawn = file.number("drawn", Unit::count, {0.1, 1}).value_or(gpu.drawn);
  gpu.p2p_over_pcie = file.boolean("p2p_over_pcie").value_or(true);
  gpu.mig = read_mig(file, gpu.sm_count, gpu.memory, diagnostics);
  gpu.usual_node = file.text("usual_node").value_or("");
  gpu.source = file.required_text("source");
  for (const char* unused : {"name", "aliases", "compute_capability", "checked", "note"}) file.has(unused);
  return gpu;
}

// Catalogue names that continue the given one: the memory sizes and forms a bare name leaves open.
std::vector<std::string> variants(const config::Catalogue& catalogue, std::string_view name) {
  const std::string stem = config::Catalogue::normalised(name) + "-";
  std::vector<std::string> found;
  for (const std::string& candidate : catalogue.names()) {
    if (candidate.starts_with(stem)) found.push_back(candidate);
  }
  return found;
}

std::optional<config::Catalogue::Found> find_gpu(const config::Catalogue& catalogue, std::string_view name,
                                                 SourcePosition asked_at, Diagnostics& diagnostics) {
  Diagnostics attempt;
  auto found = catalogue.find(name, asked_at, attempt);
  const std::vector<std::string> meant = found ? std::vector<std::string>{} : variants(catalogue, name);
  if (meant.empty()) {
    diagnostics.append(attempt);
  } else {
    diagnostics.error(std::move(asked_at),
                      message("GPU '{}' does not say which card; write one of {}", name, fmt::join(meant, ", ")));
  }
  return found;
}

}  // namespace

const char* to_string(Precision precision) {
  switch (precision) {
    case Precision::fp32:
      return "fp32";
    case Precision::tf32:
      return "tf32";
    case Precision::fp16:
      return "fp16";
    case Precision::bf16:
      return "bf16";
    case Precision::fp8:
      return "fp8";
    case Precision::nvfp4:
      return "nvfp4";
  }
  return "";
}

bool is_quantised(Precision precision) { return precision == Precision::fp8 || precision == Precision::nvfp4; }

Precision unquantised(Precision precision) { return is_quantised(precision) ? Precision::bf16 : precision; }

double operand_bytes(Precision precision) {
  if (precision == Precision::nvfp4) return 0.5 + 1.0 / 16;
  return precision == Precision::fp8 ? 1.0 : element_bytes(precision);
}

double element_bytes(Precision precision) {
  return precision == Precision::fp32 || precision == Precision::tf32 ? 4.0 : 2.0;
}

const char* to_string(AttentionKernel kernel) {
  switch (kernel) {
    case AttentionKernel::standard:
      return "standard";
    case AttentionKernel::flash1:
      return "flash";
    case AttentionKernel::flash2:
      return "flash2";
    case AttentionKernel::flash3:
      return "flash3";
  }
  return "";
}

std::optional<Datasheet> load_datasheet(const DataFolder& data, std::string_view name, SourcePosition asked_at,
                                        Diagnostics& diagnostics) {
  const config::Catalogue catalogue(data.path + "/hardware/gpus", "GPU");
  const auto found = find_gpu(catalogue, name, std::move(asked_at), diagnostics);
  if (!found) return std::nullopt;

  const int errors_before = diagnostics.error_count();
  MapReader file(*found->node, diagnostics, "");
  Datasheet result;
  result.gpu = read_datasheet(file, found->name, diagnostics);
  result.achieved = file.required_text("achieved");
  result.achieved_at = file.position_of("achieved");
  file.finish();
  if (diagnostics.error_count() > errors_before) return std::nullopt;
  return result;
}

std::optional<Gpu> load_gpu(const DataFolder& data, std::string_view name, SourcePosition asked_at,
                            Diagnostics& diagnostics) {
  std::optional<Datasheet> read = load_datasheet(data, name, std::move(asked_at), diagnostics);
  if (!read) return std::nullopt;
  auto rates = load_achieved_rates(data, read->achieved, read->gpu, read->achieved_at, diagnostics);
  if (!rates) return std::nullopt;
  read->gpu.achieved = std::move(*rates);
  return std::move(read->gpu);
}

Gpu slice_of(const Gpu& card, const MigProfile& profile) {
  Gpu slice = card;
  slice.slice = profile.name;
  const double of_sms = static_cast<double>(profile.sm_count) / card.sm_count;
  const double of_memory = static_cast<double>(profile.memory_slices) / card.mig->memory_slices;
  for (std::optional<FlopsPerSecond>& rate : slice.dense_rate) {
    if (rate) *rate *= of_sms;
  }
  slice.sm_count = profile.sm_count;
  slice.memory = profile.memory;
  slice.nominal_memory_gb = card.nominal_memory_gb * of_memory;
  slice.memory_bandwidth *= of_memory;
  slice.l2 *= of_memory;
  slice.one_way_copies = profile.copy_engines == 1;
  return slice;
}

Gpu with_power_limit(Gpu gpu, double watts) {
  const double drawn = gpu.tdp_watts * gpu.drawn;
  if (!(watts > 0.0) || !(drawn > 0.0) || watts >= drawn) return gpu;
  const double factor = std::pow(watts / drawn, 0.67);
  for (double& fraction : gpu.achieved.matmul) fraction *= factor;
  for (AchievedRates::Attention& kernel : gpu.achieved.flash) {
    kernel.forward *= factor;
    kernel.backward *= factor;
  }
  return gpu;
}

}  // namespace foretrain
