#include "sim/hardware/topology.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "sim/config/text_file.h"
#include "sim/config/write.h"

namespace foretrain {
namespace {

using config::Node;

// Sizes of the groups of GPUs that are linked no farther than `farthest`, directly or through others.
std::vector<int> groups_within(const TopologyMatrix& m, TopologyLink farthest) {
  std::vector<int> group(static_cast<std::size_t>(m.gpus));
  std::iota(group.begin(), group.end(), 0);
  for (int a = 0; a < m.gpus; ++a) {
    for (int b = 0; b < a; ++b) {
      const int of_a = group[static_cast<std::size_t>(a)], of_b = group[static_cast<std::size_t>(b)];
      if (m.between(a, b).link <= farthest && of_a != of_b) std::replace(group.begin(), group.end(), of_a, of_b);
    }
  }
  std::map<int, int> members;
  for (const int g : group) ++members[g];
  std::vector<int> sizes;
  for (const auto& [first, size] : members) sizes.push_back(size);
  return sizes;
}

bool all_equal(const std::vector<int>& sizes) {
  return std::all_of(sizes.begin(), sizes.end(), [&](int size) { return size == sizes.front(); });
}

// The NVLinks of a GPU, one entry a neighbour, sorted.
std::vector<int> bonds_of(const TopologyMatrix& m, int gpu) {
  std::vector<int> bonds;
  for (int other = 0; other < m.gpus; ++other) {
    if (m.between(gpu, other).nvlinks > 0) bonds.push_back(m.between(gpu, other).nvlinks);
  }
  std::sort(bonds.begin(), bonds.end());
  return bonds;
}

// The value of `intra` that NVLinks like these make; empty if none of those that are simulated.
std::string nvlink_layout(const TopologyMatrix& m, const Gpu::NvLink& nvlink) {
  const std::vector<int> bonds = bonds_of(m, 0);
  for (int gpu = 1; gpu < m.gpus; ++gpu) {
    if (bonds_of(m, gpu) != bonds) return "";
  }
  const int neighbours = static_cast<int>(bonds.size());
  const int links = std::accumulate(bonds.begin(), bonds.end(), 0);
  // The hybrid cube mesh of DGX-1V: two neighbours over two links and two over one.
  if (m.gpus == 8 && bonds == std::vector<int>{1, 1, 2, 2} && nvlink.links == 6) return "nvlink-mesh";
  if (bonds.front() != bonds.back()) return "";
  // Behind a switch all links lead to every other GPU, which shows as more links than there are.
  const bool all_reach_all = neighbours == m.gpus - 1;
  if (all_reach_all && bonds.front() == nvlink.links && (m.gpus > 2 || !nvlink.bridge)) return "nvswitch";
  if (links != nvlink.links) return "";
  if (neighbours == 1) return "nvlink-pairs";
  return all_reach_all ? "nvlink-mesh" : "";
}

int nics_near_gpus(const TopologyMatrix& m) {
  int near = 0;
  for (int nic = 0; nic < m.nics; ++nic) {
    bool is_near = false;
    for (int gpu = 0; gpu < m.gpus; ++gpu) is_near = is_near || m.to_nic(gpu, nic).link <= TopologyLink::pxb;
    near += is_near ? 1 : 0;
  }
  return near;
}

class Machine {
 public:
  explicit Machine(const SourcePosition& position) : position_(position), map_(config::empty_map(position)) {}

  void put(const char* key, const std::string& text) { config::set_entry(map_, key, Node{position_, text, false}); }
  void put(const char* key, int value) { put(key, fmt::format("{}", value)); }
  void put_sockets(int sockets) {
    Node host = config::empty_map(position_);
    config::set_entry(host, "sockets", Node{position_, fmt::format("{}", sockets), false});
    config::set_entry(map_, "host", std::move(host));
  }
  Node take() { return std::move(map_); }

 private:
  SourcePosition position_;
  Node map_;
};

}  // namespace

std::optional<TopologyMachine> machine_of(const TopologyMatrix& m, const Gpu& gpu, bool with_nics,
                                          const SourcePosition& position, Diagnostics& diagnostics) {
  TopologyMachine result;
  Machine machine(position);
  machine.put("gpus_per_node", m.gpus);
  const bool has_nvlink = m.gpus > 1 && !bonds_of(m, 0).empty();
  std::vector<int> switches = groups_within(m, TopologyLink::pxb);
  if (has_nvlink && !gpu.nvlink) {
    diagnostics.error(position, message("this host has NVLink, and {} has none; name the GPU of the host", gpu.name));
    return std::nullopt;
  }
  if (has_nvlink) {
    const std::string layout = nvlink_layout(m, *gpu.nvlink);
    if (layout.empty()) {
      diagnostics.unsupported(
          position, message("cluster.topo with these NVLinks between {} (which has {})", gpu.name, gpu.nvlink->links));
      return std::nullopt;
    }
    machine.put("intra", layout);
  } else if (m.gpus > 1 && switches.front() > 1) {
    if (!all_equal(switches)) {
      diagnostics.unsupported(position,
                              message("cluster.topo with {} GPUs on PCIe switches", fmt::join(switches, ", ")));
      return std::nullopt;
    }
    machine.put("intra", "pcie-switch");
    machine.put("gpus_per_pcie_switch", switches.front());
  } else if (m.gpus > 1) {
    machine.put("intra", "pcie");
  }

  // Where NVLink joins all, the matrix does not show what lies below it; where all are SYS (virtual machines), neither.
  const std::vector<int> sockets = groups_within(m, TopologyLink::node);
  const bool below_nvlink = std::any_of(m.gpu_cells.begin(), m.gpu_cells.end(),
                                        [](const auto& cell) { return cell.link > TopologyLink::nvlink; });
  const bool all_apart = m.gpus > 2 && static_cast<int>(sockets.size()) == m.gpus;
  const bool shows_sockets = below_nvlink && !all_apart;
  if (shows_sockets && !all_equal(sockets)) {
    diagnostics.unsupported(position, message("cluster.topo with {} GPUs on sockets", fmt::join(sockets, ", ")));
    return std::nullopt;
  }
  if (shows_sockets) {
    const int count = static_cast<int>(sockets.size());
    machine.put_sockets(count);
    if (count > 2) {
      result.assumptions.push_back(message("the {} NUMA nodes of topo are taken as {} sockets", count, count));
    }
  }
  if (with_nics && m.nics > 0) {
    const int near = nics_near_gpus(m);
    machine.put("nics", near > 0 ? near : m.nics);
    result.assumptions.push_back(
        near > 0
            ? message("nics is taken as {} of the {} of topo: those that share a PCIe switch with a GPU", near, m.nics)
            : message("nics is taken as {} of the {} of topo", m.nics, m.nics));
  }
  result.machine = machine.take();
  return result;
}

std::optional<TopologyMachine> read_topology(const Node& value, const Gpu& gpu, bool with_nics,
                                             Diagnostics& diagnostics) {
  constexpr std::size_t kMostBytes = std::size_t{1} << 20;
  const bool is_text = value.scalar().find('\n') != std::string::npos;
  const std::string name = is_text ? "cluster.topo" : config::path_named_by(value);
  const std::optional<std::string> text =
      is_text ? std::optional(value.scalar()) : config::read_text_file(name, kMostBytes, diagnostics);
  if (!text) return std::nullopt;
  const auto matrix = read_topology_matrix(text->substr(0, kMostBytes), name, diagnostics);
  return matrix ? machine_of(*matrix, gpu, with_nics, value.position, diagnostics) : std::nullopt;
}

}  // namespace foretrain
