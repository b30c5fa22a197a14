#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/hardware/gpu.h"

namespace foretrain {

// A scenario's `cluster` map with what its catalogue `node`, its `topo` and its `fabric` say filled in below it.
struct ClusterTemplate {
  config::Node merged;
  std::string node_name, fabric_name;  // catalogue names, or empty
  std::vector<Message> cautions;       // what the catalogue says is simulated too well or too badly
};

// Looks up `node` or `topo`, and `fabric`, if given, and merges: what the scenario writes over what they say, the
// fabric's NIC rate and network over the node's, the node's NIC count over the fabric's. Several nodes of which the
// scenario says no network get that of the GPU's usual node. nullopt after reporting an unknown name or a map that is
// none.
std::optional<ClusterTemplate> fill_from_catalogue(const config::Node& cluster, const DataFolder& data,
                                                   Diagnostics& diagnostics);

}  // namespace foretrain
