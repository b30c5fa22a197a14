#include "sim/cost/collective.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace foretrain {

namespace {

using Medium = Cluster::Medium;

constexpr BytesPerSecond kUnbounded{std::numeric_limits<double>::infinity()};

// Hops that data makes one after the other, inside nodes and between them.
struct Hops {
  double intra = 0.0, network = 0.0;
};

Hops ring_hops(Collective op, const GroupShape& shape) {
  const Hops once{static_cast<double>(shape.ranks - shape.nodes), static_cast<double>(shape.nodes - 1)};
  return op == Collective::all_reduce ? Hops{2.0 * once.intra, 2.0 * once.network} : once;
}

Hops tree_hops(const GroupShape& shape) { return {2.0 * (shape.ranks_per_node - 1), 2.0 * std::log2(shape.nodes)}; }

// L and the hops behind it, of the quicker of ring and tree.
struct LowLatency {
  double us = 0.0;
  Hops hops;
};

double plugin_us(const NetworkLatency& network) { return network.plugin ? network.latency_us : 0.0; }

LowLatency low_latency(Collective op, const GroupShape& shape, const NetworkLatency& network,
                       const CollectiveConstants& c) {
  const bool spans = shape.nodes > 1;
  const double intra = shape.medium == Medium::nvlink ? c.intra_hop_nvlink_us : c.intra_hop_pcie_us;
  const double ring_intra = spans ? std::max(intra, c.intra_hop_spanning_us) : intra;
  const Hops ring = ring_hops(op, shape);
  LowLatency best{
      c.ring_base_us + ring.intra * ring_intra + ring.network * (c.network_hop_ring_us + network.latency_us), ring};
  if (op == Collective::all_reduce && spans && network.tree) {
    const Hops tree = tree_hops(shape);
    const double us = c.tree_base_us + tree.intra * intra + tree.network * (c.network_hop_tree_us + network.latency_us);
    if (us < best.us) best = {us, tree};
  }
  if (spans) best.us += plugin_us(network);
  return best;
}

double intra_hop_of_k(const GroupShape& shape, const CollectiveConstants& c) {
  switch (shape.medium) {
    case Medium::nvlink:
      return c.k_nvlink_us;
    case Medium::pcie_p2p:
      return c.k_pcie_us;
    case Medium::host_memory:
      return c.k_host_us;
    case Medium::network:
      return 0.0;  // no hops inside nodes
  }
  return 0.0;
}

// K / (1 + (S1 / S)^c)
double ramp_us(Bytes bytes, const Hops& hops, const GroupShape& shape, const NetworkLatency& network,
               const CollectiveConstants& c) {
  const double k = c.k0_us + hops.intra * intra_hop_of_k(shape, c) + hops.network * network.hop_us;
  const bool spans = shape.nodes > 1;
  const Bytes per_rank = spans                                 ? c.s1_per_rank_network
                         : shape.medium == Medium::host_memory ? c.s1_per_rank_host
                                                               : c.s1_per_rank;
  return k / (1.0 + std::pow(per_rank * shape.ranks / bytes, spans ? c.exponent_network : c.exponent));
}

double wire_fraction(Collective op, int ranks) {
  const double once = static_cast<double>(ranks - 1) / ranks;
  switch (op) {
    case Collective::all_reduce:
      return 2.0 * once;
    case Collective::all_gather:
    case Collective::reduce_scatter:
      return once;
    case Collective::broadcast:
    case Collective::send:
    case Collective::all_to_all:
      return 1.0;
  }
  return 1.0;
}

// What a ring's kernels reach of the links inside a node.
BytesPerSecond ring_intra(Collective op, const GroupShape& shape, const Cluster& cluster,
                          const CollectiveConstants& c) {
  if (shape.medium == Medium::pcie_p2p) {
    const Intra intra = cluster.description().intra;
    const bool root_complex = intra == Intra::pcie || intra == Intra::nvlink_pairs;
    const ByGeneration& fraction = root_complex ? c.pcie_root_complex_fraction : c.pcie_ring_fraction;
    return std::min(shape.ring_intra, shape.pcie_rate * fraction.at(cluster.pcie_generation()));
  }
  if (shape.medium != Medium::nvlink) return shape.ring_intra;
  switch (op) {
    case Collective::all_reduce: {
      if (shape.nvlink_generation != 3 || shape.nodes > 1) return shape.ring_intra;
      const double steps = 2.0 * (shape.ranks - 1);
      return shape.ring_intra * (steps / (steps + c.few_steps_gen3));
    }
    case Collective::all_gather:
      return shape.ring_intra * c.all_gather_fraction;
    case Collective::reduce_scatter:
      return shape.ring_intra * c.reduce_scatter_fraction;
    case Collective::broadcast:
      return shape.ring_intra * c.broadcast_fraction;
    case Collective::send:
      return shape.ring_intra * c.send_fraction;
    case Collective::all_to_all:
      return shape.exchange_intra * c.all_to_all_fraction;
  }
  return shape.ring_intra;
}

BytesPerSecond nvls_rate(const GroupShape& shape, const CollectiveConstants& c) {
  const double g = shape.ranks_per_node;
  const double large = std::pow(std::max(g / 8.0, 1.0), -c.nvls_large_domain_exponent);
  return shape.ring_intra * (c.nvls_of_ring.at(shape.nvlink_generation) * large / (1.0 + 1.0 / g));
}

CollectiveCost quicker(const CollectiveCost& a, const CollectiveCost& b) {
  return b.idle_time() < a.idle_time() ? b : a;
}

CollectiveCost all_reduce_in_node(Bytes bytes, const CollectiveCost& ring, double low_latency_us,
                                  const GroupShape& shape, const CollectiveConstants& c) {
  if (!shape.multicast) return ring;
  const CollectiveCost low{Algorithm::ring, microseconds(low_latency_us), ring.wire_bytes,
                           ring.cap * c.low_latency_fraction};
  const double us = c.nvls_base_us + c.nvls_ramp_us / (1.0 + c.nvls_s1 / bytes);
  const CollectiveCost nvls{Algorithm::nvls, microseconds(us), bytes, nvls_rate(shape, c)};
  return quicker(quicker(low, ring), nvls);
}

// Both ways start alike (L and K are those of the quicker start); the one whose data flows faster carries it. Without
// in-switch reduction a tree moves 2(g-1)/g of the buffer over links that a ring loads no more, and the library's own
// estimate (half of 0.92 of the bus bandwidth) never prefers it for large buffers.
CollectiveCost all_reduce_over_nodes(Bytes bytes, const CollectiveCost& ring, const GroupShape& shape,
                                     const CollectiveConstants& c) {
  if (!shape.multicast) return ring;
  const double volume = shape.nodes == 2 ? 1.0 : 2.0;
  const double reached = shape.nodes == 2 ? c.tree_network_fraction_two_nodes : 1.0;
  const BytesPerSecond network = shape.ring_network * (reached / volume);
  const BytesPerSecond intra = nvls_rate(shape, c) * c.nvls_tree_fraction;
  // PCIe links between GPU and NIC carry the tree's volume as well.
  const BytesPerSecond pcie = shape.ring_intra / volume;
  const CollectiveCost tree{Algorithm::tree, ring.latency, bytes, std::min({network, intra, pcie})};
  return quicker(ring, tree);
}

CollectiveCost send_cost(Bytes bytes, const GroupShape& shape, const Cluster& cluster, const CollectiveConstants& c) {
  const bool spans = shape.nodes > 1;
  const NetworkLatency& network = network_latency(cluster, c);
  double us = spans ? c.send_network_us + network.latency_us + plugin_us(network) : c.send_us;
  us += ramp_us(bytes, {0.0, spans ? 1.0 : 0.0}, shape, network, c);
  BytesPerSecond intra = ring_intra(Collective::send, shape, cluster, c);
  if (shape.medium == Medium::host_memory) intra *= c.send_of_staged_ring;
  return {Algorithm::direct, microseconds(us), bytes, std::min(intra, shape.ring_network)};
}

// Every rank talks to every other at once: one start, no hops one after the other.
CollectiveCost exchange_cost(Bytes bytes, const GroupShape& shape, const Cluster& cluster,
                             const CollectiveConstants& c) {
  const bool spans = shape.nodes > 1;
  const NetworkLatency& network = network_latency(cluster, c);
  double us = c.all_to_all_us + (spans ? network.latency_us + plugin_us(network) : 0.0);
  us += ramp_us(bytes, {0.0, spans ? 1.0 : 0.0}, shape, network, c);
  BytesPerSecond intra = shape.exchange_intra;
  if (shape.medium == Medium::nvlink) intra = ring_intra(Collective::all_to_all, shape, cluster, c);
  return {Algorithm::all_to_all, microseconds(us), bytes, std::min(intra, shape.exchange_network)};
}

}  // namespace

const char* to_string(Collective op) {
  switch (op) {
    case Collective::all_reduce:
      return "all-reduce";
    case Collective::all_gather:
      return "all-gather";
    case Collective::reduce_scatter:
      return "reduce-scatter";
    case Collective::broadcast:
      return "broadcast";
    case Collective::send:
      return "send";
    case Collective::all_to_all:
      return "all-to-all";
  }
  return "?";
}

const char* to_string(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::ring:
      return "ring";
    case Algorithm::tree:
      return "tree";
    case Algorithm::nvls:
      return "nvls";
    case Algorithm::direct:
      return "direct";
    case Algorithm::all_to_all:
      return "all-to-all";
  }
  return "?";
}

CollectiveCost collective_cost(Collective op, Bytes bytes, const GroupShape& shape, const Cluster& cluster,
                               const CollectiveConstants& c) {
  if (shape.ranks < 2 || !(bytes.value > 0.0)) return {};
  if (op == Collective::send) return send_cost(bytes, shape, cluster, c);
  if (op == Collective::all_to_all) return exchange_cost(bytes, shape, cluster, c);

  const NetworkLatency& network = network_latency(cluster, c);
  const LowLatency start = low_latency(op, shape, network, c);
  const CollectiveCost ring{Algorithm::ring, microseconds(start.us + ramp_us(bytes, start.hops, shape, network, c)),
                            bytes * wire_fraction(op, shape.ranks),
                            std::min(ring_intra(op, shape, cluster, c), shape.ring_network)};
  if (op != Collective::all_reduce) return ring;
  if (shape.nodes == 1) return all_reduce_in_node(bytes, ring, start.us, shape, c);
  return network.tree ? all_reduce_over_nodes(bytes, ring, shape, c) : ring;
}

}  // namespace foretrain
