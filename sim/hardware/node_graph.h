#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sim/hardware/cluster.h"

namespace foretrain {

struct NodeRates;

// Adds `weight` times the hops of `path` to `total`, one entry a link.
void add_hops(std::vector<Hop>& total, std::span<const Hop> path, double weight = 1.0);

// Paths between numbered places, packed into one array.
class PathTable {
 public:
  void push_back(std::span<const Hop> path);
  std::span<const Hop> operator[](std::size_t index) const {
    return std::span(hops_).subspan(first_[index], first_[index + 1] - first_[index]);
  }

 private:
  std::vector<std::size_t> first_{0};
  std::vector<Hop> hops_;
};

// Edge-disjoint rings over a subset of the GPUs of the hybrid cube mesh: each carries the same share.
using MeshRings = std::vector<std::vector<int>>;

// The 8-GPU hybrid cube mesh of DGX-1V: NVLinks between two GPUs (0, 1 or 2).
int cube_mesh_links(int a, int b);
// As many edge-disjoint rings over `members` (a bit a GPU) as there are, each usable both ways; none if the subset
// has no ring. Two GPUs have as many rings as links.
MeshRings cube_mesh_rings(unsigned members);

// One node: its links, and the routes over them, frozen to flat arrays. LinkIds are local to the node.
class NodeGraph {
 public:
  // An edge of the graph, or a budget beside it: then `to` is empty and `from` says what it is.
  struct NamedLink {
    Link link;
    std::string from, to;
    std::string name() const { return to.empty() ? from : from + " -> " + to; }
  };

  // `gpus`: of this node, in order.
  NodeGraph(const ClusterDescription& description, const LinkRates& rates, std::span<const Gpu* const> gpus);

  std::span<const NamedLink> links() const { return links_; }
  std::span<const Hop> gpu_to_gpu(int from, int to) const { return gpu_to_gpu_[pair(from, to, gpus_)]; }
  std::span<const Hop> gpu_to_host(int gpu) const { return gpu_to_host_[static_cast<std::size_t>(gpu)]; }
  std::span<const Hop> host_to_gpu(int gpu) const { return host_to_gpu_[static_cast<std::size_t>(gpu)]; }
  // The cores and the DRAM of all sockets, an even share each; the drives with the DRAM near a GPU.
  std::span<const Hop> cores() const { return cores_; }
  std::span<const Hop> memory() const { return memory_; }
  std::span<const Hop> nvme_to_host(int gpu) const { return nvme_to_host_[static_cast<std::size_t>(gpu)]; }
  std::span<const Hop> host_to_nvme(int gpu) const { return host_to_nvme_[static_cast<std::size_t>(gpu)]; }
  std::span<const Hop> gpu_to_nic(int gpu, int nic) const { return gpu_to_nic_[pair(gpu, nic, nics_)]; }
  std::span<const Hop> nic_to_gpu(int gpu, int nic) const { return nic_to_gpu_[pair(gpu, nic, nics_)]; }
  // Rings over a subset of the hybrid cube mesh, a bit a GPU; empty for any other node.
  const MeshRings* cube_rings(unsigned members) const { return cube_.empty() ? nullptr : &cube_[members]; }

  // Links that an override of a GPU's "nvlink" or "pcie", or of a NIC, slows.
  std::vector<LinkId> links_of_gpu(int gpu, LinkKind kind) const;
  std::vector<LinkId> links_of_nic(int nic) const;

 private:
  struct Routing;
  void note_owners(const Routing& r);
  void add_host(Routing& r, const NodeRates& rates);
  void route_hosts(const Routing& r);
  void route_gpus(const Routing& r);  // after the hosts, which they may lead through
  void route_nics(const Routing& r);  // the same

  static std::size_t pair(int row, int column, int columns) {
    return static_cast<std::size_t>(row) * static_cast<std::size_t>(columns) + static_cast<std::size_t>(column);
  }

  int gpus_ = 0, nics_ = 0;
  std::vector<NamedLink> links_;
  PathTable gpu_to_gpu_, gpu_to_host_, host_to_gpu_, gpu_to_nic_, nic_to_gpu_, nvme_to_host_, host_to_nvme_;
  std::vector<Hop> cores_, memory_;
  std::vector<MeshRings> cube_;
  std::vector<std::pair<int, LinkId>> gpu_links_, nic_links_;  // links that end at a GPU or NIC
};

// The NICs dealt to a GPU of a node, and the first GPU that a NIC is dealt to.
Cluster::NicRange nics_dealt_to(int gpu, int gpus, int nics);
int gpu_dealt_nic(int nic, int gpus, int nics);

bool is_cube_mesh(const ClusterDescription& description);
bool gpu_direct(const ClusterDescription& description);
// What a GPU's PCIe link runs at: the older of its own generation and the host's.
int pcie_generation(const Gpu& gpu, const HostDescription& host);

}  // namespace foretrain
