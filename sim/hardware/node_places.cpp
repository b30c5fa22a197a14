#include "sim/hardware/node_places.h"

#include <algorithm>
#include <limits>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <boost/graph/dijkstra_shortest_paths.hpp>
#pragma GCC diagnostic pop

namespace foretrain {
namespace {

// Costs that make shortest paths go where the traffic goes: NVLink before PCIe, a PCIe level before a socket link.
// A NIC of another GPU is thus reached over NVLink through that GPU, as the library does (PXN).
constexpr int kNvlinkCost = 1;
constexpr int kPcieCost = 4;
// Below PCIe, so that copies to the host take it, and above NVLink, so that nothing else does.
constexpr int kC2cCost = 2;
constexpr int kSocketCost = 8;
constexpr int kDramCost = 4;

std::size_t sockets_of(const ClusterDescription& node) {
  return static_cast<std::size_t>(std::clamp(node.host.sockets, 1, 8 * hosts_of(node)));
}

bool has_pcie_switches(const ClusterDescription& node) {
  return node.intra == Intra::nvswitch || node.intra == Intra::pcie_switch || is_cube_mesh(node);
}

const char* to_string(NodePlaces::Kind kind) {
  switch (kind) {
    case NodePlaces::Kind::gpu:
      return "gpu";
    case NodePlaces::Kind::card:
      return "card";
    case NodePlaces::Kind::nvswitch:
      return "nvswitch";
    case NodePlaces::Kind::pcie_switch:
      return "pcie switch";
    case NodePlaces::Kind::socket:
      return "socket";
    case NodePlaces::Kind::dram:
      return "dram";
    case NodePlaces::Kind::nic:
      return "nic";
  }
  return "?";
}

}  // namespace

NodePlaces::NodePlaces(const NodeRates& rates) {
  add_sockets(rates);
  const std::vector<Vertex> slots = add_slots(rates);
  add_gpus(rates, slots);
  add_nics(rates, slots);
  add_nvlink(rates);
}

NodePlaces::Vertex NodePlaces::add(Kind kind, std::size_t index) {
  return boost::add_vertex(Place{kind, static_cast<int>(index)}, graph);
}

std::string NodePlaces::name(Vertex v) const {
  return std::string(to_string(graph[v].kind)) + " " + std::to_string(graph[v].index);
}

LinkId NodePlaces::add_link(Link link, std::string from, std::string to) {
  links.push_back({link, std::move(from), std::move(to)});
  return LinkId(links.size() - 1);
}

void NodePlaces::connect(Vertex a, Vertex b, Link link, int cost) {
  for (const auto& [from, to] : {std::pair(a, b), std::pair(b, a)})
    boost::add_edge(from, to, Wire{add_link(link, name(from), name(to)), cost}, graph);
}

LinkId NodePlaces::connect_one_way(Vertex a, Vertex b, Link link, std::string name, int cost) {
  const LinkId id = add_link(link, std::move(name));
  boost::add_edge(a, b, Wire{id, cost}, graph);
  boost::add_edge(b, a, Wire{id, cost}, graph);
  return id;
}

void NodePlaces::add_sockets(const NodeRates& rates) {
  const std::size_t count = sockets_of(rates.node);
  const std::size_t of_host = std::max<std::size_t>(1, count / static_cast<std::size_t>(hosts_of(rates.node)));
  for (std::size_t s = 0; s < count; ++s) {
    sockets.push_back(add(Kind::socket, s));
    drams.push_back(add(Kind::dram, s));
    dram_links.push_back(connect_one_way(sockets[s], drams[s], rates.dram(), "dram " + std::to_string(s), kDramCost));
    for (std::size_t other = s / of_host * of_host; other < s; ++other)
      connect(sockets[other], sockets[s], rates.socket(), kSocketCost);
  }
}

std::vector<NodePlaces::Vertex> NodePlaces::add_slots(const NodeRates& rates) {
  const ClusterDescription& node = rates.node;
  const auto count = static_cast<std::size_t>(node.cards_per_node());
  std::vector<Vertex> slots(count);
  if (has_pcie_switches(node)) {
    const auto per_switch = static_cast<std::size_t>(std::clamp(node.gpus_per_pcie_switch, 1, node.cards_per_node()));
    const std::size_t switches = (count + per_switch - 1) / per_switch;
    for (std::size_t s = 0; s < switches; ++s) {
      const Vertex v = add(Kind::pcie_switch, s);
      connect(v, sockets[s * sockets.size() / switches], rates.host_pcie(), kPcieCost);
      for (std::size_t card = s * per_switch; card < std::min(count, (s + 1) * per_switch); ++card) slots[card] = v;
    }
  } else {
    for (std::size_t card = 0; card < count; ++card) slots[card] = sockets[card * sockets.size() / count];
  }
  return slots;
}

// A card that is cut into slices has one PCIe link for all of them, and a slice its copy engines' way to it.
void NodePlaces::add_gpus(const NodeRates& rates, const std::vector<Vertex>& slots) {
  const ClusterDescription& node = rates.node;
  const auto count = static_cast<std::size_t>(node.gpus_per_node);
  const auto slices = static_cast<std::size_t>(node.slices_per_card());
  if (!node.mig.empty()) {
    for (std::size_t card = 0; card < slots.size(); ++card) {
      cards.push_back(add(Kind::card, card));
      connect(cards[card], slots[card], rates.gpu_pcie(card * slices), kPcieCost);
    }
  }
  for (std::size_t g = 0; g < count; ++g) {
    gpus.push_back(add(Kind::gpu, g));
    if (node.mig.empty()) {
      connect(gpus[g], slots[g], rates.gpu_pcie(g), kPcieCost);
    } else if (rates.gpu(g).one_way_copies) {
      connect_one_way(gpus[g], cards[g / slices], rates.gpu_pcie(g), name(gpus[g]) + " copy engine", kPcieCost);
    } else {
      connect(gpus[g], cards[g / slices], rates.gpu_pcie(g), kPcieCost);
    }
    if (rates.gpu(g).c2c.value > 0) connect(gpus[g], sockets[g * sockets.size() / count], rates.c2c(g), kC2cCost);
  }
}

void NodePlaces::add_nics(const NodeRates& rates, const std::vector<Vertex>& slots) {
  const ClusterDescription& node = rates.node;
  const auto slices = static_cast<std::size_t>(node.slices_per_card());
  for (int n = 0; n < node.nics; ++n) {
    nics.push_back(add(Kind::nic, static_cast<std::size_t>(n)));
    const auto owner = static_cast<std::size_t>(gpu_dealt_nic(n, node.gpus_per_node, node.nics));
    connect(nics.back(), slots[owner / slices], rates.host_pcie(), kPcieCost);
  }
}

void NodePlaces::add_nvlink(const NodeRates& rates) {
  const ClusterDescription& node = rates.node;
  const std::size_t count = gpus.size();
  if (!node.gpu.nvlink || count < 2) return;
  switch (node.intra) {
    case Intra::nvswitch: {
      const Vertex plane = add(Kind::nvswitch, 0);
      for (std::size_t g = 0; g < count; ++g) connect(gpus[g], plane, rates.nvlink(g, 1.0, false), kNvlinkCost);
      break;
    }
    case Intra::nvlink_mesh: {
      const bool cube = is_cube_mesh(node);
      for (std::size_t i = 0; i < count; ++i)
        for (std::size_t j = i + 1; j < count; ++j) {
          const double share = cube ? cube_mesh_links(static_cast<int>(i), static_cast<int>(j)) / 6.0
                                    : 1.0 / static_cast<double>(count - 1);
          if (share > 0.0) connect(gpus[i], gpus[j], rates.nvlink(i, j, share, false), kNvlinkCost);
        }
      break;
    }
    case Intra::nvlink_pairs:
      for (std::size_t i = 0; i + 1 < count; i += 2)
        connect(gpus[i], gpus[i + 1], rates.nvlink(i, i + 1, 1.0, true), kNvlinkCost);
      break;
    case Intra::pcie_switch:
    case Intra::pcie:
      break;
  }
}

NodePaths::NodePaths(const NodePlaces::Graph& graph, NodePlaces::Vertex source)
    : source_(source), previous_(boost::num_vertices(graph)) {
  std::vector<int> distance(boost::num_vertices(graph));
  const auto costs = boost::get(&NodePlaces::Wire::cost, graph);
  boost::dijkstra_shortest_paths(graph, source, boost::weight_map(costs).distance_map(distance.data()));
  const auto unreachable = std::numeric_limits<int>::max();
  for (auto [e, end] = boost::edges(graph); e != end; ++e) {
    const NodePlaces::Vertex from = boost::source(*e, graph), to = boost::target(*e, graph);
    if (distance[from] == unreachable || distance[from] + graph[*e].cost != distance[to]) continue;
    Step& step = previous_[to];
    if (!step.link.valid() || from < step.from) step = {from, graph[*e].link};
  }
}

std::vector<Hop> NodePaths::to(NodePlaces::Vertex target) const {
  std::vector<Hop> hops;
  for (NodePlaces::Vertex v = target; v != source_; v = previous_[v].from) {
    if (!previous_[v].link.valid()) return {};  // not reachable: does not happen, every place hangs on a socket
    hops.push_back({previous_[v].link, 1.0});
  }
  std::reverse(hops.begin(), hops.end());
  return hops;
}

}  // namespace foretrain
