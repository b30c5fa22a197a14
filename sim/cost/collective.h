#pragma once

#include <array>
#include <optional>
#include <span>
#include <vector>

#include "sim/hardware/cluster.h"

namespace foretrain {

enum class Collective { all_reduce, all_gather, reduce_scatter, broadcast, send, all_to_all };
const char* to_string(Collective op);

// How a network's software stack behaves.
struct NetworkLatency {
  double latency_us = 0.0;  // one way
  double hop_us = 0.0;      // what the bandwidth protocol adds per hop
  bool plugin = false;      // a vendor's plug-in: the latency counts once more
  bool tree = true;         // false: the stack runs rings only
};

// Constants of NCCL-like collectives; hardware/calibrated/collectives.yaml, each with its source.
// T = L + K / (1 + (S1 / S)^c) + W / B: latency of the low-latency protocol, what the bandwidth protocol adds,
// and the fluid part that the network simulates. S is the full buffer.
struct CollectiveConstants {
  // L, microseconds
  double ring_base_us = 0, tree_base_us = 0;
  double network_hop_ring_us = 0, network_hop_tree_us = 0;
  double intra_hop_nvlink_us = 0, intra_hop_pcie_us = 0;
  double intra_hop_spanning_us = 0;  // least hop inside nodes of a ring over several nodes
  double send_us = 0, send_network_us = 0, all_to_all_us = 0;
  // K, microseconds; S1, bytes per rank; c
  double k0_us = 0, k_nvlink_us = 0, k_pcie_us = 0, k_host_us = 0;
  Bytes s1_per_rank, s1_per_rank_host, s1_per_rank_network;
  double exponent = 1, exponent_network = 1;
  // In-switch all-reduce
  double nvls_base_us = 0, nvls_ramp_us = 0;
  Bytes nvls_s1;
  double low_latency_fraction = 0;        // of the ring rate: the low-latency protocol beside NVLS
  ByGeneration nvls_of_ring;              // by NVLink generation
  double nvls_large_domain_exponent = 0;  // rate falls as (n / 8)^-x beyond 8 GPUs
  double nvls_tree_fraction = 0;          // of the NVLS rate, between nodes
  // Tree
  double tree_network_fraction_two_nodes = 0;
  // Share of the ring's rate over NVLink
  double all_gather_fraction = 0, reduce_scatter_fraction = 0, broadcast_fraction = 0, send_fraction = 0;
  double all_to_all_fraction = 0;
  double send_of_staged_ring = 0;  // one way through host memory, of the ring's rate there
  double few_steps_gen3 = 0;
  // Share of a large PCIe copy's rate, by PCIe generation: below switches, and through a root complex
  ByGeneration pcie_ring_fraction, pcie_root_complex_fraction;
  NetworkLatency infiniband, rdma_staged, roce, efa_volta, efa_ampere, efa_hopper, efa_blackwell, ethernet, omni_path;
};

// Reads the file; nullopt after reporting what is wrong with it.
std::optional<CollectiveConstants> load_collective_constants(const DataFolder& data, Diagnostics& diagnostics);
// The same of a file already parsed.
std::optional<CollectiveConstants> read_collective_constants(const config::Node& file, Diagnostics& diagnostics);

// The constants of the network that a cluster's nodes talk over. EFA's versions are told by the GPU's architecture:
// AWS pairs v1 with Volta and Ampere, v2 and v3 with Hopper, v4 with Blackwell.
const NetworkLatency& network_latency(const Cluster& cluster, const CollectiveConstants& constants);

// The ranks of a communicator as the cost needs to see them.
struct GroupShape {
  int ranks = 1;
  int nodes = 1;
  int ranks_per_node = 1;     // of the fullest node
  int nics_per_node = 0;      // NICs that carry the group's traffic out of one node (the fewest of any node)
  int nvlink_generation = 0;  // the oldest of its GPUs; 0 without NVLink
  Cluster::Medium medium = Cluster::Medium::network;  // slowest medium between neighbours inside a node; network if
                                                      // every rank has a node of its own
  bool multicast = false;  // NVLS possible: three GPUs or more of a node, or two of each of several nodes
  // Bytes/s that every rank of an idle ring can send: as links inside nodes allow, and as NICs and fabric allow.
  // Infinite where nothing bounds it.
  BytesPerSecond ring_intra, ring_network;
  BytesPerSecond pcie_rate;  // slowest PCIe link a ring crosses; infinite if none
  BytesPerSecond nic_rate;   // slowest NIC it crosses; infinite if none
  // Bytes/s of W that every rank of an idle all-to-all reaches, as links inside nodes allow, and as NICs and fabric
  // allow; 0 before with_exchange.
  BytesPerSecond exchange_intra, exchange_network;
};
// `gpus`: distinct GPUs in rank order; any order gives the same shape except for a send's direction.
GroupShape shape_of(const Cluster& cluster, std::span<const int> gpus);

enum class Algorithm { ring, tree, nvls, direct, all_to_all };
const char* to_string(Algorithm algorithm);

// How long a collective takes when nothing else is on the links, split the way the simulator needs it.
struct CollectiveCost {
  Algorithm algorithm = Algorithm::ring;
  Seconds latency;     // paid before data flows, loads nothing
  Bytes wire_bytes;    // W: work of the fluid phase, in the unit that `loads` are given per
  BytesPerSecond cap;  // B: the most W/s the algorithm reaches on idle links; never above what the links allow

  Seconds idle_time() const { return wire_bytes.value > 0.0 ? latency + wire_bytes / cap : latency; }
};
// `bytes` is the full buffer (all-gather, reduce-scatter: the whole tensor over all ranks).
// W is what each rank sends: 2(n-1)/n of the buffer for an all-reduce by ring, (n-1)/n for all-gather and
// reduce-scatter, the buffer for broadcast and send; for an all-reduce by tree or NVLS W is the buffer; for an
// all-to-all all that a rank holds, its own part included (the shape must come from with_exchange).
// One rank or zero bytes: all zero.
// The choice is the quickest on idle links: by NVSwitch or ring inside a node, by tree (with in-switch reduction
// inside the nodes) or ring between nodes;
// all-gather, reduce-scatter and broadcast always by ring.
CollectiveCost collective_cost(Collective op, Bytes bytes, const GroupShape& shape, const Cluster& cluster,
                               const CollectiveConstants& constants);

// Bytes that one unit of W puts on each link, summed over all ranks of the group; sorted by link, no duplicates.
// Conservation: what leaves through NICs enters through NICs.
//
// ring    Inside one node each rank sends W to its neighbour (Cluster::ring_within_node). Between nodes W leaves and
//         W enters every node, spread evenly over the k NICs of the group's GPUs there, each NIC served by the GPUs
//         it is nearest to; rotated rings give every GPU the same share. Over NVLink the last hop of a chain back to
//         the rail's GPU is made too (PXN), so each GPU sends W; over PCIe (g-1)/g W and W/g to its NIC.
// tree    Unit: the buffer. Each node sends and receives it once on two nodes, twice on more (double binary tree:
//         inner node of one tree, leaf of the other), spread over the NICs as above. Inside a node (1 + 1/g) on each
//         GPU's link to the switch (NVLS), else chains both ways: 2(g-1)/g.
// nvls    Unit: the buffer. Each GPU's link carries S(1 + 1/n) each way: every rank's buffer is read once by the
//         switch, 1/n of the result is stored by multicast; and the reverse.
// direct  The first GPU sends W to the second; of more than two each sends to the next.
// all_to_all  See exchange.h: what goes where depends on how tokens are spread.
struct LinkLoad {
  LinkId link;
  double bytes_per_unit = 0.0;
};
std::vector<LinkLoad> link_loads(const Cluster& cluster, std::span<const int> gpus, Algorithm algorithm);

}  // namespace foretrain
