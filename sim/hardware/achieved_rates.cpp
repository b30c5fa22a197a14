#include "sim/hardware/achieved_rates.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/config/reader.h"

namespace foretrain {
namespace {

using config::MapReader;
using config::Node;
using config::Unit;

// Datasheet clocks are base or typical boost clocks and a card may run above them, so a little over 1 is possible.
constexpr config::Range kFraction{1e-6, 1.1};

// What kernels alone reach and what whole steps make of it: for the reader of the file.
void skip_provenance(MapReader& map) {
  map.text("kernels");
  map.text("sustained");
}

struct Sourced {
  double value = 0.0;
  std::string source;
};

// {value, source} under `key`; nullopt if the key is null or absent.
std::optional<Sourced> read_sourced(MapReader& parent, std::string_view key, Unit unit, config::Range range,
                                    Diagnostics& diagnostics) {
  const Node* node = parent.node(key);
  if (present(node) == nullptr) return std::nullopt;
  MapReader map(*node, diagnostics, std::string(key));
  Sourced result;
  result.value = map.required_number("value", unit, range);
  result.source = map.required_text("source");
  skip_provenance(map);
  map.finish();
  return result;
}

Sourced required_sourced(MapReader& parent, std::string_view key, Unit unit, config::Range range,
                         Diagnostics& diagnostics) {
  const std::optional<Sourced> read = read_sourced(parent, key, unit, range, diagnostics);
  if (!read) parent.error(key, message("{} is missing; it must be a map of value and source", key));
  return read.value_or(Sourced{});
}

void read_matmul(MapReader& file, const Gpu& gpu, AchievedRates& rates, Diagnostics& diagnostics) {
  const Node* node = file.node("matmul");
  if (node == nullptr) return file.error("matmul", message("matmul is missing; it must be a map of precisions"));
  MapReader matmul(*node, diagnostics, "matmul");
  for (int i = 0; i < kMeasuredPrecisions; ++i) {
    const auto precision = static_cast<Precision>(i);
    const std::string key = to_string(precision);
    const std::optional<Sourced> read = read_sourced(matmul, key, Unit::count, kFraction, diagnostics);
    if (!gpu.dense(precision)) continue;
    if (!read) {
      matmul.error(key, message("matmul.{} is missing; {} has a datasheet rate for it", key, gpu.name));
      continue;
    }
    rates.matmul[static_cast<std::size_t>(i)] = read->value;
    // The rate most runs are bound by stands for the file.
    if (precision == Precision::bf16 || rates.source.empty()) rates.source = read->source;
  }
  matmul.finish();
  if (gpu.dense(Precision::nvfp4)) {
    rates.matmul[static_cast<std::size_t>(Precision::nvfp4)] = rates.matmul[static_cast<std::size_t>(Precision::fp8)];
  }
}

AchievedRates::Attention read_kernel(const Node& node, std::string_view key, Diagnostics& diagnostics) {
  MapReader map(node, diagnostics, std::string(key));
  AchievedRates::Attention rates;
  rates.forward = map.required_number("forward", Unit::count, kFraction);
  rates.backward = map.required_number("backward", Unit::count, kFraction);
  rates.prologue = map.required_number("prologue_tokens", Unit::count, {0, 1e5});
  map.required_text("source");
  skip_provenance(map);
  map.finish();
  return rates;
}

void read_attention(MapReader& file, AchievedRates& rates, Diagnostics& diagnostics) {
  const Node* node = file.node("attention");
  if (node == nullptr) return file.error("attention", message("attention is missing; it must be a map of kernels"));
  MapReader attention(*node, diagnostics, "attention");
  for (AttentionKernel kernel : {AttentionKernel::flash1, AttentionKernel::flash2, AttentionKernel::flash3}) {
    // `attention: flash` is the scenario's name of the first version; here all three carry their number.
    const std::string key = fmt::format("flash{}", static_cast<int>(kernel));
    const Node* values = attention.node(key);
    if (present(values) == nullptr) continue;
    rates.flash[static_cast<std::size_t>(kernel)] = read_kernel(*values, key, diagnostics);
  }
  attention.finish();
}

}  // namespace

std::optional<AchievedRates> load_achieved_rates(const DataFolder& data, std::string_view file, const Gpu& gpu,
                                                 SourcePosition asked_at, Diagnostics& diagnostics) {
  const config::Catalogue catalogue(data.path + "/hardware/calibrated", "file of achieved rates");
  const auto found = catalogue.find(file, std::move(asked_at), diagnostics);
  if (!found) return std::nullopt;

  const int errors_before = diagnostics.error_count();
  MapReader map(*found->node, diagnostics, "");
  AchievedRates rates;
  map.required_text("name");
  read_matmul(map, gpu, rates, diagnostics);
  rates.memory = required_sourced(map, "memory", Unit::count, kFraction, diagnostics).value;
  constexpr config::Range kFloor{0, 1e-3};
  rates.kernel_floor = {required_sourced(map, "kernel_floor_us", Unit::microseconds, kFloor, diagnostics).value};
  rates.elementwise_floor = {
      required_sourced(map, "elementwise_floor_us", Unit::microseconds, kFloor, diagnostics).value};
  read_attention(map, rates, diagnostics);
  const double channels = required_sourced(map, "collective_channels", Unit::count, {0, 1000}, diagnostics).value;
  rates.collective_sm_share = std::min(1.0, channels / gpu.sm_count);

  const std::vector<std::string> measured_on = map.text_list("measured_on").value_or(std::vector<std::string>{});
  if (std::find(measured_on.begin(), measured_on.end(), gpu.name) == measured_on.end()) {
    rates.inherited_from = found->name;
  }
  map.finish();
  if (diagnostics.error_count() > errors_before) return std::nullopt;
  return rates;
}

}  // namespace foretrain
