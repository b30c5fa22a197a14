#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/ids.h"
#include "sim/hardware/cluster_description.h"
#include "sim/hardware/link_rates.h"

namespace foretrain {

using LinkId = Id<struct LinkTag>;

// Kinds of capacity a byte may cross.
enum class LinkKind {
  nvlink,        // GPU to NVSwitch, GPU to GPU in a mesh or pair, or GPU to the CPU of its module (C2C)
  pcie,          // GPU, switch or NIC to the level above
  socket,        // between CPU sockets (UPI, xGMI)
  host_memory,   // DRAM of one socket, both directions together
  host_staging,  // one GPU's budget for copies through host memory (no P2P): up and down share it
  nic,           // one direction of a NIC's port
  fabric,        // one node's share of the uplinks from leaf to spine, when oversubscribed
  cpu,           // the cores of one socket, in core-nanoseconds a second: no link, but work that is shared like one
  nvme,          // the drives of a node, one direction
};
const char* to_string(LinkKind kind);

// One direction of a physical link (or a shared budget). Rates are achievable ones.
struct Link {
  LinkKind kind = LinkKind::pcie;
  BytesPerSecond rate;  // achievable by collectives and large copies
  BytesPerSecond datasheet;
};

// A path and how many bytes of each link one byte sent takes (2 where DRAM is written and read).
struct Hop {
  LinkId link;
  double bytes_per_byte = 1.0;
};

class NodeGraph;

// Nodes larger than this are refused: routes inside a node are held for every pair of GPUs.
inline constexpr int kMaxGpusPerNode = 256;
inline constexpr int kMaxNicsPerNode = 256;

// The hardware graph. One node is held as a Boost.Graph and routed by shortest paths (deterministic ties);
// all nodes are alike but for overrides, and the fabric between them is computed, so a cluster of tens of
// thousands of GPUs costs no more memory than one node of each kind and the overrides.
//
// GPUs are numbered node by node: gpu g is number g % gpus_per_node of node g / gpus_per_node.
// Links are numbered node by node too, those of the fabric after them.
class Cluster {
 public:
  // Throws std::invalid_argument for a description that read_cluster would have refused: no GPUs, several nodes
  // without NICs, a node with NVLink whose GPUs have none, host DRAM without a bandwidth, too large a node.
  Cluster(ClusterDescription description, const LinkRates& rates);

  const ClusterDescription& description() const { return description_; }
  const Gpu& gpu() const { return description_.gpu; }  // like all others but for oddities
  int gpu_count() const { return description_.gpus; }
  int node_count() const { return description_.nodes(); }
  int node_of(int gpu) const { return gpu / description_.gpus_per_node; }
  // The older of the GPU's and the host's PCIe generation: what a GPU's x16 link runs at.
  int pcie_generation() const;

  std::size_t link_count() const;
  Link link(LinkId id) const;
  std::string link_name(LinkId id) const;  // "node 3: gpu 2 -> nvswitch 0 (nvlink)"
  // Whether every node has the same GPUs and the same links at the same rates; and then the link that is to a node so
  // many further what `id` is to its own.
  bool nodes_alike() const { return odd_nodes_.empty() && slowed_.empty(); }
  LinkId further(LinkId id, int nodes) const;

  // The way of a copy from one GPU to another, no link twice. Empty if they are the same. Between nodes it is spread
  // evenly over the NICs of each end.
  std::vector<Hop> route(int from_gpu, int to_gpu) const;
  // GPU to host memory of its socket, and back: PCIe links and the DRAM.
  std::vector<Hop> route_to_host(int gpu) const;
  std::vector<Hop> route_from_host(int gpu) const;
  // The host's work for a GPU: a core-nanosecond on the cores of all sockets, and a byte of all sockets' DRAM, spread
  // evenly. (An optimizer's threads and pages are spread by the operating system.)
  std::vector<Hop> host_cores(int gpu) const;
  std::vector<Hop> host_memory(int gpu) const;
  // A byte from the node's drives to the memory of the GPU's socket, and back; of one drive if nothing says what there
  // is.
  std::vector<Hop> nvme_to_host(int gpu) const;
  std::vector<Hop> host_to_nvme(int gpu) const;
  // NICs are dealt evenly to the GPUs of a node: several GPUs share one, or a GPU has several of its own.
  // [first, last) by their index within the node; empty without NICs.
  struct NicRange {
    int first = 0, last = 0;
  };
  NicRange nics_of(int gpu) const;
  int nic_of(int gpu) const { return nics_of(gpu).first; }
  // The ways GPU -> NIC -> fabric and back, up to the point where the fabric is crossed. `route` between nodes is
  // leave(a) followed by the fabric and enter(b). Without GPUDirect they go through host memory.
  std::vector<Hop> leave(int gpu, int nic) const;
  std::vector<Hop> enter(int gpu, int nic) const;
  // Links of the fabric that can be short: none within a leaf switch or at full bisection.
  std::vector<Hop> across_fabric(int from_node, int from_nic, int to_node, int to_nic) const;

  // What a ring over these GPUs of one node, in this order and back to the first, loads per byte that each of them
  // sends. Where the NVLink wiring allows several rings at once the traffic is spread over them: evenly over the
  // links of a full mesh, over edge-disjoint rings in the hybrid cube mesh. Empty for fewer than two GPUs.
  std::vector<Hop> ring_within_node(std::span<const int> gpus) const;

  // What carries traffic between two GPUs: decides latencies and protocols.
  enum class Medium { nvlink, pcie_p2p, host_memory, network };
  Medium medium(int a, int b) const;
  // In-switch reduction (NVLS) where this GPU is: NVSwitch of Hopper or later.
  bool has_multicast(int gpu) const;
  // NICs and GPUs exchange data without passing through host memory.
  bool gpu_direct() const;
  // The graph of one node; its links are numbered within it.
  const NodeGraph& graph(int node) const;

 private:
  ClusterDescription description_;
  std::shared_ptr<const NodeGraph> node_;  // most nodes
  // Nodes with GPUs of another kind, sorted: their links are numbered alike, their rates differ.
  std::vector<std::pair<int, std::shared_ptr<const NodeGraph>>> odd_nodes_;
  BytesPerSecond fabric_share_;                    // of one node, one direction; 0 if the fabric never binds
  std::vector<std::pair<LinkId, double>> slowed_;  // overrides: factors, sorted by link
};

}  // namespace foretrain
