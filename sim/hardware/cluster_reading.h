#pragma once

#include <string>
#include <string_view>

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

// Whether GPUs reach each other over NVLink in such a node.
bool uses_nvlink(Intra intra);
// The NVLink layouts a GPU can be built into. A catalogue file that names none allows all.
std::vector<std::string> nvlink_layouts(const Gpu& gpu);

}  // namespace foretrain
