#include "sim/hardware/node_graph.h"

#include <algorithm>
#include <optional>

#include "sim/hardware/node_places.h"

namespace foretrain {

namespace {

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

// What the routes of a node are made of.
struct NodeGraph::Routing {
  Routing(const ClusterDescription& node, const NodeRates& rates);

  // Host memory near a GPU: that of the socket its PCIe link leads to.
  std::size_t home_of(std::size_t gpu) const;
  // A GPU's way to the memory near it.
  std::vector<Hop> to_memory(std::size_t gpu) const { return from_gpu[gpu].to(places.drams[home[gpu]]); }

  const ClusterDescription& node;
  NodePlaces places;
  // Budgets beside the graph: copies through host memory of a GPU without P2P, the directions of a NIC, a node's TCP
  // sockets, and the drives.
  std::vector<LinkId> staging, send, receive;
  LinkId tcp_send, tcp_receive, drives_read, drives_write;  // tcp: only where they limit
  std::vector<NodePaths> from_gpu, from_dram, from_nic;
  std::vector<std::size_t> home;  // of each GPU, its socket
};

NodeGraph::Routing::Routing(const ClusterDescription& described, const NodeRates& rates)
    : node(described), places(rates) {
  if (!node.p2p) {
    const auto slices = static_cast<std::size_t>(node.slices_per_card());
    for (std::size_t g = 0; g < places.gpus.size(); ++g) {
      const std::string card = places.name(node.mig.empty() ? places.gpus[g] : places.cards[g / slices]);
      const bool own = g % slices == 0;
      staging.push_back(own ? places.add_link(rates.staging(g), card + " copies through host memory") : staging.back());
    }
  }
  for (const NodePlaces::Vertex nic : places.nics) {
    send.push_back(places.add_link(rates.nic(), places.name(nic) + " sends"));
    receive.push_back(places.add_link(rates.nic(), places.name(nic) + " receives"));
  }
  if (const std::optional<Link> tcp = rates.tcp_sockets()) {
    tcp_send = places.add_link(*tcp, "tcp sockets send");
    tcp_receive = places.add_link(*tcp, "tcp sockets receive");
  }
  for (const NodePlaces::Vertex v : places.gpus) from_gpu.emplace_back(places.graph, v);
  for (const NodePlaces::Vertex v : places.drams) from_dram.emplace_back(places.graph, v);
  for (const NodePlaces::Vertex v : places.nics) from_nic.emplace_back(places.graph, v);
  for (std::size_t g = 0; g < places.gpus.size(); ++g) home.push_back(home_of(g));
}

std::size_t NodeGraph::Routing::home_of(std::size_t gpu) const {
  const auto hops = [&](NodePlaces::Vertex dram) { return from_gpu[gpu].to(dram).size(); };
  const auto nearest =
      std::min_element(places.drams.begin(), places.drams.end(), [&](auto a, auto b) { return hops(a) < hops(b); });
  return static_cast<std::size_t>(nearest - places.drams.begin());
}

NodeGraph::NodeGraph(const ClusterDescription& node, const LinkRates& link_rates, std::span<const Gpu* const> gpus)
    : gpus_(node.gpus_per_node), nics_(node.nics) {
  const NodeRates rates{node, link_rates, gpus};
  Routing r(node, rates);
  note_owners(r);
  add_host(r, rates);
  route_hosts(r);
  route_gpus(r);
  route_nics(r);
  if (is_cube_mesh(node))
    for (unsigned members = 0; members < 256; ++members) cube_.push_back(cube_mesh_rings(members));
  links_ = std::move(r.places.links);
}

void NodeGraph::note_owners(const Routing& r) {
  const NodePlaces::Graph& graph = r.places.graph;
  for (std::size_t n = 0; n < r.send.size(); ++n)
    for (const LinkId link : {r.send[n], r.receive[n]}) nic_links_.emplace_back(static_cast<int>(n), link);
  for (auto [e, end] = boost::edges(graph); e != end; ++e)
    for (const NodePlaces::Vertex v : {boost::source(*e, graph), boost::target(*e, graph)})
      if (graph[v].kind == NodePlaces::Kind::gpu) gpu_links_.emplace_back(graph[v].index, graph[*e].link);
}

void NodeGraph::add_host(Routing& r, const NodeRates& rates) {
  NodePlaces& places = r.places;
  const std::size_t sockets = places.sockets.size();
  for (std::size_t s = 0; s < sockets; ++s) {
    const double share = 1.0 / static_cast<double>(sockets);
    cores_.push_back({places.add_link(rates.cores(sockets), places.name(places.sockets[s]) + " cores"), share});
    memory_.push_back({places.dram_links[s], share});
  }
  const BytesPerSecond reads = r.node.host.nvme_read.value_or(kOneDriveReads);
  const BytesPerSecond writes = r.node.host.nvme_write.value_or(kOneDriveWrites);
  r.drives_read = places.add_link({LinkKind::nvme, reads, reads}, "nvme reads");
  r.drives_write = places.add_link({LinkKind::nvme, writes, writes}, "nvme writes");
}

void NodeGraph::route_hosts(const Routing& r) {
  for (std::size_t g = 0; g < r.home.size(); ++g) {
    gpu_to_host_.push_back(r.to_memory(g));
    host_to_gpu_.push_back(r.from_dram[r.home[g]].to(r.places.gpus[g]));
    const Hop dram{r.places.dram_links[r.home[g]], 1.0};
    nvme_to_host_.push_back(std::array{Hop{r.drives_read, 1.0}, dram});
    host_to_nvme_.push_back(std::array{dram, Hop{r.drives_write, 1.0}});
  }
}

void NodeGraph::route_gpus(const Routing& r) {
  const std::vector<NodePlaces::Vertex>& gpus = r.places.gpus;
  for (std::size_t a = 0; a < gpus.size(); ++a)
    for (std::size_t z = 0; z < gpus.size(); ++z) {
      std::vector<Hop> path;
      if (a != z && (r.node.p2p || joined_by_nvlink(r.node, static_cast<int>(a), static_cast<int>(z)))) {
        path = r.from_gpu[a].to(gpus[z]);
      } else if (a != z) {
        // The sender's copy into its host memory, the receiver's out of it.
        const Hop budgets[] = {{r.staging[a], 1.0}, {r.staging[z], 1.0}};
        add_hops(path, gpu_to_host_[a]);
        add_hops(path, r.from_dram[r.home[a]].to(gpus[z]));
        add_hops(path, budgets);
      }
      gpu_to_gpu_.push_back(path);
    }
}

void NodeGraph::route_nics(const Routing& r) {
  const NodePlaces& places = r.places;
  const bool direct = gpu_direct(r.node);
  for (std::size_t g = 0; g < places.gpus.size(); ++g)
    for (std::size_t n = 0; n < places.nics.size(); ++n) {
      std::vector<Hop> out, in;
      if (direct) {
        out = r.from_gpu[g].to(places.nics[n]);
        in = r.from_nic[n].to(places.gpus[g]);
      } else {
        add_hops(out, gpu_to_host_[g]);
        add_hops(out, r.from_dram[r.home[g]].to(places.nics[n]));
        add_hops(in, r.from_nic[n].to(places.drams[r.home[g]]));
        add_hops(in, host_to_gpu_[g]);
      }
      out.push_back({r.send[n], 1.0});
      in.insert(in.begin(), Hop{r.receive[n], 1.0});
      if (r.tcp_send.valid()) {
        out.push_back({r.tcp_send, 1.0});
        in.insert(in.begin(), Hop{r.tcp_receive, 1.0});
      }
      gpu_to_nic_.push_back(out);
      nic_to_gpu_.push_back(in);
    }
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
