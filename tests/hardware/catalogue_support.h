#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "sim/hardware/cluster_description.h"
#include "tests/support/text.h"

namespace foretrain::test {

inline DataFolder data_folder() { return {FORETRAIN_SOURCE_DIR}; }

// Stems of the YAML files of a folder below hardware/, sorted.
inline std::vector<std::string> stems(const std::string& folder) {
  return config::Catalogue(data_folder().path + "/hardware/" + folder, folder).names();
}

inline std::string all_text(const Diagnostics& diagnostics) { return foretrain::testing::shown(diagnostics); }

inline bool mentions(const Diagnostics& diagnostics, std::string_view text) {
  return all_text(diagnostics).find(text) != std::string::npos;
}

// A `cluster` map written in flow style, as a scenario holds it.
inline std::optional<ClusterDescription> read(std::string_view yaml, Diagnostics& diagnostics) {
  const auto node = config::parse_yaml(yaml, "scenario.yaml", diagnostics);
  if (!node) return std::nullopt;
  return read_cluster(*node, data_folder(), diagnostics);
}

// The cluster of a map that nothing is wrong with.
inline ClusterDescription good(std::string_view yaml) {
  Diagnostics diagnostics;
  const auto cluster = read(yaml, diagnostics);
  INFO(all_text(diagnostics));
  REQUIRE(cluster.has_value());
  return *cluster;
}

}  // namespace foretrain::test
