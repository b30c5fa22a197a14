#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/hardware/gpu.h"
#include "sim/interchange/topology_matrix.h"

namespace foretrain {

// What a host of these GPUs with this matrix is, in the keys of a scenario's `cluster`, and what was assumed where the
// matrix does not say.
struct TopologyMachine {
  config::Node machine;
  std::vector<Message> assumptions;
};

// NICs are counted only where asked for: those that share a PCIe switch with a GPU, or all if none does.
// nullopt if the matrix does not go with the GPU (an error), or shows wiring that is not simulated (unsupported), both
// at `position`. GPUs that are alike may be numbered anew: which pair is joined by NVLink, or which are on which
// socket, changes no time.
std::optional<TopologyMachine> machine_of(const TopologyMatrix& matrix, const Gpu& gpu, bool with_nics,
                                          const SourcePosition& position, Diagnostics& diagnostics);

// The host that the value of `topo`, which is text, shows: that of a file, or the text itself in several lines.
std::optional<TopologyMachine> read_topology(const config::Node& value, const Gpu& gpu, bool with_nics,
                                             Diagnostics& diagnostics);

}  // namespace foretrain
