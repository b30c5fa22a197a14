#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/config/reader.h"
#include "sim/hardware/cluster_description.h"

namespace foretrain {

// What the readers of a cluster's map share: the map with what the catalogue fills in, what becomes of it, and where
// complaints go.
struct ClusterReading {
  config::MapReader& map;
  const config::Node& scenario;  // the map as the scenario has it, without the catalogue
  ClusterDescription& cluster;
  Diagnostics& diagnostics;
  const DataFolder& data;
  Gpu card = {};  // as the catalogue has it; cluster.gpu is a slice of it under MIG

  bool scenario_says(std::string_view key) const { return scenario.is_map() && scenario.find(key) != nullptr; }
  void assume(Message text) { cluster.assumptions.push_back(std::move(text)); }
};

// One of these values by its name.
template <class Enum, std::size_t N>
std::optional<Enum> read_enum(config::MapReader& map, std::string_view key, const std::array<Enum, N>& values) {
  std::vector<std::string> names;
  for (Enum value : values) names.emplace_back(to_string(value));
  const auto index = map.choice(key, names);
  return index ? std::optional(values[*index]) : std::nullopt;
}

inline std::optional<int> read_int(config::MapReader& map, std::string_view key, config::Range range) {
  const auto value = map.integer(key, range);
  return value ? std::optional(static_cast<int>(*value)) : std::nullopt;
}

// Whether GPUs reach each other over NVLink in such a node.
bool uses_nvlink(Intra intra);
// The NVLink layouts a GPU can be built into. A catalogue file that names none allows all.
std::vector<std::string> nvlink_layouts(const Gpu& gpu);

}  // namespace foretrain
