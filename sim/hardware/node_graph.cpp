#include "sim/hardware/node_graph.h"

#include <algorithm>
#include <limits>
#include <optional>

// GCC 12 takes an empty boost::optional in these headers for an uninitialised one when sanitizers are on.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/dijkstra_shortest_paths.hpp>
#pragma GCC diagnostic pop

namespace foretrain {

namespace {

enum class VertexKind { gpu, card, nvswitch, pcie_switch, socket, dram, nic };

const char* to_string(VertexKind kind) {
  switch (kind) {
    case VertexKind::gpu:
      return "gpu";
    case VertexKind::card:
      return "card";
    case VertexKind::nvswitch:
      return "nvswitch";
    case VertexKind::pcie_switch:
      return "pcie switch";
    case VertexKind::socket:
      return "socket";
    case VertexKind::dram:
      return "dram";
    case VertexKind::nic:
      return "nic";
  }
  return "?";
}

struct Place {
  VertexKind kind = VertexKind::gpu;
  int index = 0;
};

// One direction of a link. The two directions of DRAM are one link: reads and writes share its rate.
struct Wire {
  LinkId link;
  int cost = 0;
};

// Costs that make shortest paths go where the traffic goes: NVLink before PCIe, a PCIe level before a socket link.
// A NIC of another GPU is thus reached over NVLink through that GPU, as the library does (PXN).
constexpr int kNvlinkCost = 1;
constexpr int kPcieCost = 4;
// Below PCIe, so that copies to the host take it, and above NVLink, so that nothing else does.
constexpr int kC2cCost = 2;
constexpr int kSocketCost = 8;
constexpr int kDramCost = 4;

using Graph = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, Place, Wire>;
using Vertex = boost::graph_traits<Graph>::vertex_descriptor;

// The graph of one node while it is put together.
struct Builder {
  Graph graph;
  std::vector<NodeGraph::NamedLink> links;
  std::vector<Vertex> gpus, cards, nics, sockets, drams;
  std::vector<LinkId> dram_links;

  Vertex add(VertexKind kind, std::size_t index) {
    return boost::add_vertex(Place{kind, static_cast<int>(index)}, graph);
  }
  std::string name(Vertex v) const {
    return std::string(to_string(graph[v].kind)) + " " + std::to_string(graph[v].index);
  }

  LinkId add_link(Link link, std::string from, std::string to = "") {
    links.push_back({link, std::move(from), std::move(to)});
    return LinkId(links.size() - 1);
  }
  void connect(Vertex a, Vertex b, Link link, int cost) {
    for (const auto& [from, to] : {std::pair(a, b), std::pair(b, a)})
      boost::add_edge(from, to, Wire{add_link(link, name(from), name(to)), cost}, graph);
  }
  // Both directions share one rate.
  LinkId connect_one_way(Vertex a, Vertex b, Link link, std::string name, int cost) {
    const LinkId id = add_link(link, std::move(name));
    boost::add_edge(a, b, Wire{id, cost}, graph);
    boost::add_edge(b, a, Wire{id, cost}, graph);
    return id;
  }
};

// A node is several hosts where NVLink joins them.
int hosts_of(const ClusterDescription& node) {
  return node.gpus_per_host > 0 ? node.gpus_per_node / node.gpus_per_host : 1;
}

// Rates of one node's links.
struct NodeRates {
  const ClusterDescription& node;
  const LinkRates& rates;
  std::span<const Gpu* const> gpus;

  const Gpu& gpu(std::size_t index) const { return *gpus[index]; }

  // Of `share` of a GPU's links.
  Link nvlink(std::size_t index, double share, bool bridge) const {
    const Gpu::NvLink& own = *gpu(index).nvlink;
    const auto& table = bridge ? rates.nvlink_bridge_fraction : rates.nvlink_fraction;
    const double datasheet = own.per_direction.value * share;
    return {LinkKind::nvlink, {datasheet * table.at(own.generation)}, {datasheet}};
  }
  // Between two GPUs: as the slower of them can.
  Link nvlink(std::size_t a, std::size_t b, double share, bool bridge) const {
    const Link of_a = nvlink(a, share, bridge), of_b = nvlink(b, share, bridge);
    return of_b.rate < of_a.rate ? of_b : of_a;
  }
  Link pcie(int generation, int lanes) const {
    const double width = std::clamp(lanes, 1, 16) / 16.0;
    return {LinkKind::pcie, {rates.pcie_copy.at(generation) * width}, {rates.pcie_datasheet.at(generation) * width}};
  }
  Link gpu_pcie(std::size_t index) const { return pcie(pcie_generation(gpu(index), node.host), gpu(index).pcie_lanes); }
  Link host_pcie() const { return pcie(node.host.pcie_generation, 16); }
  Link socket() const {
    const double rate = rates.socket.at(node.host.pcie_generation);
    return {LinkKind::socket, {rate}, {rate}};
  }
  Link dram() const {
    const BytesPerSecond datasheet = node.host.dram_bandwidth_per_socket;
    return {LinkKind::host_memory, datasheet * rates.dram_fraction, datasheet};
  }
  // Unless the host is known, a driver that refuses P2P marks a desktop card; see host_staging in links.yaml.
  Link staging(std::size_t index) const {
    const Board usual = gpu(index).p2p_over_pcie ? Board::server : Board::desktop;
    const auto& table = node.host.board.value_or(usual) == Board::server ? rates.staging_server : rates.staging_desktop;
    const Link up = gpu_pcie(index);
    const double ring = std::min(table.at(pcie_generation(gpu(index), node.host)), up.rate.value);
    return {LinkKind::host_staging, {2.0 * ring}, 2.0 * up.datasheet};
  }
  Link c2c(std::size_t index) const { return {LinkKind::nvlink, gpu(index).c2c_copy, gpu(index).c2c}; }
  Link cores(std::size_t sockets) const {
    const BytesPerSecond rate{1e9 * node.host.cores / static_cast<double>(sockets)};
    return {LinkKind::cpu, rate, rate};
  }
  Link nic() const { return {LinkKind::nic, {nic_rate()}, node.nic_rate}; }
  // What the TCP sockets of a node move in one direction, over all its NICs together: the threads that copy into and
  // out of the kernel are the host's, not a NIC's. Nothing where the NICs are slower anyway.
  std::optional<Link> tcp_sockets() const {
    if (node.network != NetworkKind::ethernet) return std::nullopt;
    const BytesPerSecond limit = rates.ethernet_node_limit * hosts_of(node), line = node.nic_rate * node.nics;
    if (limit >= line * rates.ethernet) return std::nullopt;
    return Link{LinkKind::nic, limit, line};
  }

 private:
  double nic_rate() const {
    const double line = node.nic_rate.value;
    switch (node.network) {
      case NetworkKind::infiniband:
      case NetworkKind::roce: {
        const bool near = node.intra != Intra::pcie && node.intra != Intra::nvlink_pairs && gpu_direct(node);
        return line * (near ? rates.rdma : rates.rdma_staged);
      }
      case NetworkKind::efa:
        return line * (gpu(0).architecture == "blackwell" ? rates.efa_blackwell : rates.efa);
      case NetworkKind::ethernet:
        return line * rates.ethernet;
      case NetworkKind::omni_path:
        return line * rates.omni_path;
    }
    return line;
  }
};

bool has_pcie_switches(const ClusterDescription& node) {
  return node.intra == Intra::nvswitch || node.intra == Intra::pcie_switch || is_cube_mesh(node);
}

// Sockets with their DRAM, PCIe switches, GPUs' and NICs' attachment. A card that is cut into slices has one PCIe link
// for all of them, and a slice its copy engines' way to it.
void build_host(Builder& b, const ClusterDescription& node, const NodeRates& rates) {
  const auto cards = static_cast<std::size_t>(node.cards_per_node());
  const auto gpus = static_cast<std::size_t>(node.gpus_per_node);
  const auto slices = static_cast<std::size_t>(node.slices_per_card());
  const auto hosts = static_cast<std::size_t>(hosts_of(node));
  const auto sockets = static_cast<std::size_t>(std::clamp(node.host.sockets, 1, 8 * hosts_of(node)));
  const std::size_t of_host = std::max<std::size_t>(1, sockets / hosts);
  for (std::size_t s = 0; s < sockets; ++s) {
    b.sockets.push_back(b.add(VertexKind::socket, s));
    b.drams.push_back(b.add(VertexKind::dram, s));
    b.dram_links.push_back(
        b.connect_one_way(b.sockets[s], b.drams[s], rates.dram(), "dram " + std::to_string(s), kDramCost));
    for (std::size_t other = s / of_host * of_host; other < s; ++other)
      b.connect(b.sockets[other], b.sockets[s], rates.socket(), kSocketCost);
  }
  std::vector<Vertex> attachment(cards);  // what each card's PCIe slot hangs on
  if (has_pcie_switches(node)) {
    const auto per_switch = static_cast<std::size_t>(std::clamp(node.gpus_per_pcie_switch, 1, node.cards_per_node()));
    const std::size_t switches = (cards + per_switch - 1) / per_switch;
    for (std::size_t s = 0; s < switches; ++s) {
      const Vertex v = b.add(VertexKind::pcie_switch, s);
      b.connect(v, b.sockets[s * sockets / switches], rates.host_pcie(), kPcieCost);
      for (std::size_t card = s * per_switch; card < std::min(cards, (s + 1) * per_switch); ++card)
        attachment[card] = v;
    }
  } else {
    for (std::size_t card = 0; card < cards; ++card) attachment[card] = b.sockets[card * sockets / cards];
  }
  if (!node.mig.empty()) {
    for (std::size_t card = 0; card < cards; ++card) {
      b.cards.push_back(b.add(VertexKind::card, card));
      b.connect(b.cards[card], attachment[card], rates.gpu_pcie(card * slices), kPcieCost);
    }
  }
  for (std::size_t g = 0; g < gpus; ++g) {
    b.gpus.push_back(b.add(VertexKind::gpu, g));
    if (node.mig.empty()) {
      b.connect(b.gpus[g], attachment[g], rates.gpu_pcie(g), kPcieCost);
    } else if (rates.gpu(g).one_way_copies) {
      b.connect_one_way(b.gpus[g], b.cards[g / slices], rates.gpu_pcie(g), b.name(b.gpus[g]) + " copy engine",
                        kPcieCost);
    } else {
      b.connect(b.gpus[g], b.cards[g / slices], rates.gpu_pcie(g), kPcieCost);
    }
    if (rates.gpu(g).c2c.value > 0) b.connect(b.gpus[g], b.sockets[g * sockets / gpus], rates.c2c(g), kC2cCost);
  }
  for (int n = 0; n < node.nics; ++n) {
    b.nics.push_back(b.add(VertexKind::nic, static_cast<std::size_t>(n)));
    const auto owner = static_cast<std::size_t>(gpu_dealt_nic(n, node.gpus_per_node, node.nics));
    b.connect(b.nics.back(), attachment[owner / slices], rates.host_pcie(), kPcieCost);
  }
}

void build_nvlink(Builder& b, const ClusterDescription& node, const NodeRates& rates) {
  const std::size_t gpus = b.gpus.size();
  if (!node.gpu.nvlink || gpus < 2) return;
  switch (node.intra) {
    case Intra::nvswitch: {
      const Vertex plane = b.add(VertexKind::nvswitch, 0);
      for (std::size_t g = 0; g < gpus; ++g) b.connect(b.gpus[g], plane, rates.nvlink(g, 1.0, false), kNvlinkCost);
      break;
    }
    case Intra::nvlink_mesh: {
      const bool cube = is_cube_mesh(node);
      for (std::size_t i = 0; i < gpus; ++i)
        for (std::size_t j = i + 1; j < gpus; ++j) {
          const double share = cube ? cube_mesh_links(static_cast<int>(i), static_cast<int>(j)) / 6.0
                                    : 1.0 / static_cast<double>(gpus - 1);
          if (share > 0.0) b.connect(b.gpus[i], b.gpus[j], rates.nvlink(i, j, share, false), kNvlinkCost);
        }
      break;
    }
    case Intra::nvlink_pairs:
      for (std::size_t i = 0; i + 1 < gpus; i += 2)
        b.connect(b.gpus[i], b.gpus[i + 1], rates.nvlink(i, i + 1, 1.0, true), kNvlinkCost);
      break;
    case Intra::pcie_switch:
    case Intra::pcie:
      break;
  }
}

// Shortest paths from one vertex to all. Among equals the one whose vertices have the lowest ids wins.
class Paths {
 public:
  Paths(const Graph& graph, Vertex source) : graph_(graph), source_(source), previous_(boost::num_vertices(graph)) {
    std::vector<int> distance(boost::num_vertices(graph));
    boost::dijkstra_shortest_paths(graph, source,
                                   boost::weight_map(boost::get(&Wire::cost, graph)).distance_map(distance.data()));
    const auto unreachable = std::numeric_limits<int>::max();
    for (auto [e, end] = boost::edges(graph); e != end; ++e) {
      const Vertex from = boost::source(*e, graph), to = boost::target(*e, graph);
      if (distance[from] == unreachable || distance[from] + graph[*e].cost != distance[to]) continue;
      Step& step = previous_[to];
      if (!step.link.valid() || from < step.from) step = {from, graph[*e].link};
    }
  }

  std::vector<Hop> to(Vertex target) const {
    std::vector<Hop> hops;
    for (Vertex v = target; v != source_; v = previous_[v].from) {
      if (!previous_[v].link.valid()) return {};  // not reachable: does not happen, every place hangs on a socket
      hops.push_back({previous_[v].link, 1.0});
    }
    std::reverse(hops.begin(), hops.end());
    return hops;
  }

 private:
  struct Step {
    Vertex from = 0;
    LinkId link;
  };
  const Graph& graph_;
  Vertex source_;
  std::vector<Step> previous_;
};

// GPUs that NVLink joins: directly, through the switch or through a neighbour of the mesh.
bool joined_by_nvlink(const ClusterDescription& node, int a, int b) {
  if (!node.gpu.nvlink) return false;
  switch (node.intra) {
    case Intra::nvswitch:
    case Intra::nvlink_mesh:
      return true;
    case Intra::nvlink_pairs:
      return a / 2 == b / 2;
    case Intra::pcie_switch:
    case Intra::pcie:
      return false;
  }
  return false;
}

}  // namespace

void add_hops(std::vector<Hop>& total, std::span<const Hop> path, double weight) {
  for (const Hop& hop : path) {
    const auto known = std::find_if(total.begin(), total.end(), [&](const Hop& h) { return h.link == hop.link; });
    if (known != total.end())
      known->bytes_per_byte += weight * hop.bytes_per_byte;
    else
      total.push_back({hop.link, weight * hop.bytes_per_byte});
  }
}

void PathTable::push_back(std::span<const Hop> path) {
  hops_.insert(hops_.end(), path.begin(), path.end());
  first_.push_back(hops_.size());
}

bool is_cube_mesh(const ClusterDescription& description) {
  return description.intra == Intra::nvlink_mesh && description.gpus_per_node == 8 && description.gpu.nvlink &&
         description.gpu.nvlink->generation == 2 && description.gpu.nvlink->links == 6;
}

bool gpu_direct(const ClusterDescription& description) {
  return description.p2p && description.network != NetworkKind::ethernet;
}

int pcie_generation(const Gpu& gpu, const HostDescription& host) {
  return std::min(gpu.pcie_generation, host.pcie_generation);
}

Cluster::NicRange nics_dealt_to(int gpu, int gpus, int nics) {
  if (nics <= 0) return {};
  if (nics <= gpus) {
    const int nic = gpu * nics / gpus;
    return {nic, nic + 1};
  }
  return {(gpu * nics + gpus - 1) / gpus, ((gpu + 1) * nics + gpus - 1) / gpus};
}

int gpu_dealt_nic(int nic, int gpus, int nics) {
  return nics <= gpus ? (nic * gpus + nics - 1) / nics : nic * gpus / nics;
}

NodeGraph::NodeGraph(const ClusterDescription& node, const LinkRates& link_rates, std::span<const Gpu* const> gpus)
    : gpus_(node.gpus_per_node), nics_(node.nics) {
  Builder b;
  const NodeRates rates{node, link_rates, gpus};
  build_host(b, node, rates);
  build_nvlink(b, node, rates);

  std::vector<LinkId> staging(b.gpus.size()), send(b.nics.size()), receive(b.nics.size());
  if (!node.p2p) {
    const auto slices = static_cast<std::size_t>(node.slices_per_card());
    for (std::size_t g = 0; g < b.gpus.size(); ++g) {
      const Vertex card = node.mig.empty() ? b.gpus[g] : b.cards[g / slices];
      staging[g] =
          g % slices > 0 ? staging[g - 1] : b.add_link(rates.staging(g), b.name(card) + " copies through host memory");
    }
  }
  for (std::size_t n = 0; n < b.nics.size(); ++n) {
    send[n] = b.add_link(rates.nic(), b.name(b.nics[n]) + " sends");
    receive[n] = b.add_link(rates.nic(), b.name(b.nics[n]) + " receives");
    nic_links_.emplace_back(static_cast<int>(n), send[n]);
    nic_links_.emplace_back(static_cast<int>(n), receive[n]);
  }
  const std::optional<Link> tcp = rates.tcp_sockets();
  LinkId tcp_send, tcp_receive;
  if (tcp) {
    tcp_send = b.add_link(*tcp, "tcp sockets send");
    tcp_receive = b.add_link(*tcp, "tcp sockets receive");
  }
  for (auto [e, end] = boost::edges(b.graph); e != end; ++e)
    for (const Vertex v : {boost::source(*e, b.graph), boost::target(*e, b.graph)})
      if (b.graph[v].kind == VertexKind::gpu) gpu_links_.emplace_back(b.graph[v].index, b.graph[*e].link);

  const std::size_t sockets = b.sockets.size();
  for (std::size_t s = 0; s < sockets; ++s) {
    const double share = 1.0 / static_cast<double>(sockets);
    cores_.push_back({b.add_link(rates.cores(sockets), b.name(b.sockets[s]) + " cores"), share});
    memory_.push_back({b.dram_links[s], share});
  }
  const BytesPerSecond reads = node.host.nvme_read.value_or(kOneDriveReads);
  const BytesPerSecond writes = node.host.nvme_write.value_or(kOneDriveWrites);
  const LinkId drives_read = b.add_link({LinkKind::nvme, reads, reads}, "nvme reads");
  const LinkId drives_write = b.add_link({LinkKind::nvme, writes, writes}, "nvme writes");

  std::vector<Paths> from_gpu, from_dram, from_nic;
  for (const Vertex v : b.gpus) from_gpu.emplace_back(b.graph, v);
  for (const Vertex v : b.drams) from_dram.emplace_back(b.graph, v);
  for (const Vertex v : b.nics) from_nic.emplace_back(b.graph, v);

  // Host memory near a GPU: that of the socket its PCIe link leads to.
  std::vector<std::size_t> home(b.gpus.size());
  for (std::size_t g = 0; g < b.gpus.size(); ++g) {
    std::vector<Hop> shortest;
    for (std::size_t s = 0; s < b.drams.size(); ++s) {
      std::vector<Hop> path = from_gpu[g].to(b.drams[s]);
      if (s > 0 && path.size() >= shortest.size()) continue;
      home[g] = s;
      shortest = std::move(path);
    }
    gpu_to_host_.push_back(shortest);
    host_to_gpu_.push_back(from_dram[home[g]].to(b.gpus[g]));
    const Hop dram{b.dram_links[home[g]], 1.0};
    nvme_to_host_.push_back(std::array{Hop{drives_read, 1.0}, dram});
    host_to_nvme_.push_back(std::array{dram, Hop{drives_write, 1.0}});
  }
  for (std::size_t a = 0; a < b.gpus.size(); ++a)
    for (std::size_t z = 0; z < b.gpus.size(); ++z) {
      std::vector<Hop> path;
      if (a != z && (node.p2p || joined_by_nvlink(node, static_cast<int>(a), static_cast<int>(z)))) {
        path = from_gpu[a].to(b.gpus[z]);
      } else if (a != z) {
        // The sender's copy into its host memory, the receiver's out of it.
        const Hop budgets[] = {{staging[a], 1.0}, {staging[z], 1.0}};
        add_hops(path, gpu_to_host_[a]);
        add_hops(path, from_dram[home[a]].to(b.gpus[z]));
        add_hops(path, budgets);
      }
      gpu_to_gpu_.push_back(path);
    }
  const bool direct = foretrain::gpu_direct(node);
  for (std::size_t g = 0; g < b.gpus.size(); ++g)
    for (std::size_t n = 0; n < b.nics.size(); ++n) {
      std::vector<Hop> out, in;
      if (direct) {
        out = from_gpu[g].to(b.nics[n]);
        in = from_nic[n].to(b.gpus[g]);
      } else {
        add_hops(out, gpu_to_host_[g]);
        add_hops(out, from_dram[home[g]].to(b.nics[n]));
        add_hops(in, from_nic[n].to(b.drams[home[g]]));
        add_hops(in, host_to_gpu_[g]);
      }
      out.push_back({send[n], 1.0});
      in.insert(in.begin(), Hop{receive[n], 1.0});
      if (tcp) {
        out.push_back({tcp_send, 1.0});
        in.insert(in.begin(), Hop{tcp_receive, 1.0});
      }
      gpu_to_nic_.push_back(out);
      nic_to_gpu_.push_back(in);
    }
  if (is_cube_mesh(node))
    for (unsigned members = 0; members < 256; ++members) cube_.push_back(cube_mesh_rings(members));
  links_ = std::move(b.links);
}

std::vector<LinkId> NodeGraph::links_of_gpu(int gpu, LinkKind kind) const {
  std::vector<LinkId> result;
  for (const auto& [owner, link] : gpu_links_) {
    const bool known = std::find(result.begin(), result.end(), link) != result.end();
    if (owner == gpu && links_[link.index()].link.kind == kind && !known) result.push_back(link);
  }
  return result;
}

std::vector<LinkId> NodeGraph::links_of_nic(int nic) const {
  std::vector<LinkId> result;
  for (const auto& [owner, link] : nic_links_)
    if (owner == nic) result.push_back(link);
  return result;
}

}  // namespace foretrain
