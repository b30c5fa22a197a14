#pragma once

#include <string>
#include <vector>

#include "sim/hardware/node_graph.h"
#include "sim/hardware/node_rates.h"

// GCC 12 takes an empty boost::optional in these headers for an uninitialised one when sanitizers are on.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <boost/graph/adjacency_list.hpp>
#pragma GCC diagnostic pop

namespace foretrain {

// The graph of one node while its routes are looked for: GPUs, switches, sockets, DRAM and NICs, and the links between
// them.
struct NodePlaces {
  enum class Kind { gpu, card, nvswitch, pcie_switch, socket, dram, nic };
  struct Place {
    Kind kind = Kind::gpu;
    int index = 0;
  };
  // One direction of a link. The two directions of DRAM are one link: reads and writes share its rate.
  struct Wire {
    LinkId link;
    int cost = 0;
  };
  using Graph = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, Place, Wire>;
  using Vertex = boost::graph_traits<Graph>::vertex_descriptor;

  explicit NodePlaces(const NodeRates& rates);

  std::string name(Vertex v) const;  // "gpu 3"
  LinkId add_link(Link link, std::string from, std::string to = "");

  Graph graph;
  std::vector<NodeGraph::NamedLink> links;
  std::vector<Vertex> gpus, cards, nics, sockets, drams;  // cards: only where they are cut into slices
  std::vector<LinkId> dram_links;                         // of each socket

 private:
  Vertex add(Kind kind, std::size_t index);
  // A link each way.
  void connect(Vertex a, Vertex b, Link link, int cost);
  // Both directions share one rate.
  LinkId connect_one_way(Vertex a, Vertex b, Link link, std::string name, int cost);

  void add_sockets(const NodeRates& rates);
  std::vector<Vertex> add_slots(const NodeRates& rates);  // what each card's PCIe slot hangs on
  void add_gpus(const NodeRates& rates, const std::vector<Vertex>& slots);
  void add_nics(const NodeRates& rates, const std::vector<Vertex>& slots);
  void add_nvlink(const NodeRates& rates);
};

// Shortest paths from one vertex to all. Among equals the one whose vertices have the lowest ids wins.
class NodePaths {
 public:
  NodePaths(const NodePlaces::Graph& graph, NodePlaces::Vertex source);
  // Link by link, in the order of travel.
  std::vector<Hop> to(NodePlaces::Vertex target) const;

 private:
  struct Step {
    NodePlaces::Vertex from = 0;
    LinkId link;
  };
  NodePlaces::Vertex source_;
  std::vector<Step> previous_;
};

}  // namespace foretrain
