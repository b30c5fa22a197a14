#include <algorithm>
#include <limits>
#include <stdexcept>

#include "sim/cost/summed_loads.h"

namespace foretrain {

namespace {

// The group's GPUs of one node, and the NICs dealt to them.
struct Members {
  std::span<const int> gpus;  // ascending
  std::vector<int> nics;      // ascending
};

std::vector<Members> members_by_node(const Cluster& cluster, std::span<const int> sorted) {
  std::vector<Members> nodes;
  for (std::size_t first = 0; first < sorted.size();) {
    std::size_t last = first;
    Members members;
    while (last < sorted.size() && cluster.node_of(sorted[last]) == cluster.node_of(sorted[first])) {
      const Cluster::NicRange own = cluster.nics_of(sorted[last++]);
      for (int nic = own.first; nic < own.last; ++nic)
        if (members.nics.empty() || members.nics.back() < nic) members.nics.push_back(nic);
    }
    members.gpus = sorted.subspan(first, last - first);
    nodes.push_back(std::move(members));
    first = last;
  }
  return nodes;
}

std::vector<int> ascending(std::span<const int> gpus) {
  std::vector<int> sorted(gpus.begin(), gpus.end());
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

bool over_nvlink(const Cluster& cluster, std::span<const int> gpus) {
  for (std::size_t i = 0; i + 1 < gpus.size(); ++i)
    if (cluster.medium(gpus[i], gpus[i + 1]) != Cluster::Medium::nvlink) return false;
  return true;
}

// `amount` leaves and enters one node over its NICs, each NIC served by the GPUs it is dealt to.
void add_network(SummedLoads& loads, const Cluster& cluster, const Members& node, double amount) {
  const double per_nic = amount / static_cast<double>(node.nics.size());
  for (const int nic : node.nics) {
    const auto serves = [&](int gpu) {
      const Cluster::NicRange own = cluster.nics_of(gpu);
      return own.first <= nic && nic < own.last;
    };
    const auto sharers = static_cast<double>(std::count_if(node.gpus.begin(), node.gpus.end(), serves));
    for (const int gpu : node.gpus) {
      if (!serves(gpu)) continue;
      loads.add(cluster.leave(gpu, nic), per_nic / sharers);
      loads.add(cluster.enter(gpu, nic), per_nic / sharers);
    }
  }
}

// `amount` crosses the fabric from each node to the next. Rails meet as far as both nodes use the same NICs.
void add_fabric(SummedLoads& loads, const Cluster& cluster, const std::vector<Members>& nodes, double amount) {
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const Members& from = nodes[i];
    const Members& to = nodes[(i + 1) % nodes.size()];
    const std::size_t lanes = std::max(from.nics.size(), to.nics.size());
    for (std::size_t lane = 0; lane < lanes; ++lane)
      loads.add(cluster.across_fabric(cluster.node_of(from.gpus[0]), from.nics[lane % from.nics.size()],
                                      cluster.node_of(to.gpus[0]), to.nics[lane % to.nics.size()]),
                amount / static_cast<double>(lanes));
  }
}

std::vector<LinkLoad> ring_loads(const Cluster& cluster, std::span<const int> sorted) {
  SummedLoads loads;
  const std::vector<Members> nodes = members_by_node(cluster, sorted);
  if (nodes.size() == 1) {
    loads.add(cluster.ring_within_node(sorted), 1.0);
    return std::move(loads).sum();
  }
  for (const Members& node : nodes) {
    const auto g = static_cast<double>(node.gpus.size());
    loads.add(cluster.ring_within_node(node.gpus), over_nvlink(cluster, node.gpus) ? 1.0 : (g - 1.0) / g);
    add_network(loads, cluster, node, 1.0);
  }
  add_fabric(loads, cluster, nodes, 1.0);
  return std::move(loads).sum();
}

std::vector<LinkLoad> tree_loads(const Cluster& cluster, std::span<const int> sorted) {
  SummedLoads loads;
  const std::vector<Members> nodes = members_by_node(cluster, sorted);
  const double amount = nodes.size() == 2 ? 1.0 : 2.0;
  for (const Members& node : nodes) {
    const auto g = static_cast<double>(node.gpus.size());
    if (cluster.has_multicast(node.gpus.front())) {
      loads.add(cluster.ring_within_node(node.gpus), 1.0 + 1.0 / g);
    } else {
      const std::vector<int> reversed(node.gpus.rbegin(), node.gpus.rend());
      loads.add(cluster.ring_within_node(node.gpus), (g - 1.0) / g);
      loads.add(cluster.ring_within_node(reversed), (g - 1.0) / g);
    }
    if (nodes.size() > 1) add_network(loads, cluster, node, amount);
  }
  if (nodes.size() > 1) add_fabric(loads, cluster, nodes, amount);
  return std::move(loads).sum();
}

}  // namespace

std::vector<LinkLoad> link_loads(const Cluster& cluster, std::span<const int> gpus, Algorithm algorithm) {
  if (gpus.size() < 2) return {};
  SummedLoads loads;
  switch (algorithm) {
    case Algorithm::ring:
      return ring_loads(cluster, ascending(gpus));
    case Algorithm::tree:
      return tree_loads(cluster, ascending(gpus));
    case Algorithm::nvls:
      loads.add(cluster.ring_within_node(ascending(gpus)), 1.0 + 1.0 / static_cast<double>(gpus.size()));
      break;
    case Algorithm::direct:
      for (std::size_t i = 0; i + 1 < gpus.size(); ++i) loads.add(cluster.route(gpus[i], gpus[i + 1]), 1.0);
      break;
    case Algorithm::all_to_all:
      throw std::invalid_argument("an all-to-all's loads depend on its tokens: exchange_loads");
  }
  return std::move(loads).sum();
}

GroupShape shape_of(const Cluster& cluster, std::span<const int> gpus) {
  constexpr double kUnbounded = std::numeric_limits<double>::infinity();
  GroupShape shape;
  shape.ranks = static_cast<int>(gpus.size());
  shape.ring_intra = shape.ring_network = shape.pcie_rate = shape.nic_rate = {kUnbounded};
  const std::vector<int> sorted = ascending(gpus);
  const std::vector<Members> nodes = members_by_node(cluster, sorted);
  shape.nodes = static_cast<int>(nodes.size());
  std::size_t fewest_nics = nodes.empty() ? 0 : nodes.front().nics.size();
  for (const Members& node : nodes) {
    const auto& nvlink = cluster.description().gpu_at(node.gpus.front()).nvlink;
    const int generation = nvlink ? nvlink->generation : 0;
    shape.nvlink_generation = shape.nvlink_generation == 0 ? generation : std::min(shape.nvlink_generation, generation);
    shape.ranks_per_node = std::max(shape.ranks_per_node, static_cast<int>(node.gpus.size()));
    fewest_nics = std::min(fewest_nics, node.nics.size());
    for (std::size_t i = 0; i + 1 < node.gpus.size(); ++i) {
      const Cluster::Medium medium = cluster.medium(node.gpus[i], node.gpus[i + 1]);
      // Media are listed from the fastest to the slowest; network stands for "none yet".
      if (shape.medium == Cluster::Medium::network || medium > shape.medium) shape.medium = medium;
    }
  }
  shape.nics_per_node = shape.nodes > 1 ? static_cast<int>(fewest_nics) : 0;
  const auto reduces = [&](const Members& node) { return cluster.has_multicast(node.gpus.front()); };
  shape.multicast =
      std::all_of(nodes.begin(), nodes.end(), reduces) && shape.ranks_per_node > (shape.nodes > 1 ? 1 : 2);
  for (const LinkLoad& load : ring_loads(cluster, sorted)) {
    const Link link = cluster.link(load.link);
    const BytesPerSecond rate = link.rate / load.bytes_per_unit;
    BytesPerSecond& bound =
        link.kind == LinkKind::nic || link.kind == LinkKind::fabric ? shape.ring_network : shape.ring_intra;
    bound = std::min(bound, rate);
    if (link.kind == LinkKind::nic) shape.nic_rate = std::min(shape.nic_rate, link.rate);
    if (link.kind == LinkKind::pcie) shape.pcie_rate = std::min(shape.pcie_rate, link.rate);
  }
  return shape;
}

}  // namespace foretrain
