#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/diagnostics.h"

namespace foretrain {

// How two devices of a host reach each other, in the words of `nvidia-smi topo -m`, nearest first.
enum class TopologyLink { self, nvlink, pix, pxb, phb, node, sys };

// What `nvidia-smi topo -m` prints: GPUs and NICs of one host, and the link between every two.
struct TopologyMatrix {
  int gpus = 0, nics = 0;
  // nvlinks: how many NVLinks bond two GPUs; 0 for every other link.
  struct Cell {
    TopologyLink link = TopologyLink::self;
    int nvlinks = 0;
    bool operator==(const Cell&) const = default;
  };
  std::vector<Cell> gpu_cells;  // gpus x gpus
  std::vector<Cell> nic_cells;  // gpus x nics

  const Cell& between(int a, int b) const { return gpu_cells[static_cast<std::size_t>(a * gpus + b)]; }
  const Cell& to_nic(int gpu, int nic) const { return nic_cells[static_cast<std::size_t>(gpu * nics + nic)]; }
};

// The most of each that a host is read with.
inline constexpr int kMostTopologyGpus = 64, kMostTopologyNics = 256;

// Reads the text as pasted: lines before the table and after it (the legend) are passed over, colours are dropped, and
// columns may be parted by tabs or spaces. Everything wrong is reported with its line; nullopt then.
std::optional<TopologyMatrix> read_topology_matrix(std::string_view text, const std::string& file_name,
                                                   Diagnostics& diagnostics);

}  // namespace foretrain
