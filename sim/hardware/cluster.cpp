#include "sim/hardware/cluster.h"

#include <algorithm>
#include <map>
#include <stdexcept>

#include "sim/hardware/node_graph.h"

namespace foretrain {

namespace {

void require(bool condition, const char* what) {
  if (!condition) throw std::invalid_argument(what);
}

const ClusterDescription& checked(const ClusterDescription& d) {
  require(d.gpus >= 1 && d.gpus_per_node >= 1, "a cluster has at least one GPU");
  require(d.gpus_per_node <= kMaxGpusPerNode && d.nics >= 0 && d.nics <= kMaxNicsPerNode, "node too large");
  require(d.nodes() == 1 || d.nics > 0, "several nodes need NICs");
  require(d.nics == 0 || d.nic_rate.value > 0.0, "NICs need a rate");
  const bool needs_nvlink = d.intra != Intra::pcie && d.intra != Intra::pcie_switch && d.gpus_per_node > 1;
  require(!needs_nvlink || (d.gpu.nvlink && d.gpu.nvlink->per_direction.value > 0.0), "these GPUs have no NVLink");
  require(d.host.dram_bandwidth_per_socket.value > 0.0, "host DRAM needs a bandwidth");
  return d;
}

// Turns links local to a node into links of the cluster.
std::vector<Hop> placed(std::span<const Hop> local, std::size_t first_link) {
  std::vector<Hop> hops(local.begin(), local.end());
  for (Hop& hop : hops) hop.link = LinkId(first_link + hop.link.index());
  return hops;
}

}  // namespace

const char* to_string(LinkKind kind) {
  switch (kind) {
    case LinkKind::nvlink:
      return "nvlink";
    case LinkKind::pcie:
      return "pcie";
    case LinkKind::socket:
      return "socket";
    case LinkKind::host_memory:
      return "host memory";
    case LinkKind::host_staging:
      return "host staging";
    case LinkKind::nic:
      return "nic";
    case LinkKind::fabric:
      return "fabric";
    case LinkKind::cpu:
      return "cpu";
    case LinkKind::nvme:
      return "nvme";
  }
  return "?";
}

Cluster::Cluster(ClusterDescription description, const LinkRates& rates) : description_(std::move(description)) {
  const auto per_node = static_cast<std::size_t>(checked(description_).gpus_per_node);
  std::vector<const Gpu*> usual(per_node, &description_.gpu);
  if (!description_.mig.empty()) {  // every card is cut alike
    for (std::size_t i = 0; i < per_node; ++i) usual[i] = &description_.gpu_at(static_cast<int>(i));
  }
  node_ = std::make_shared<NodeGraph>(description_, rates, usual);
  // By the kinds of a node's GPUs: nodes that are alike share a graph.
  std::map<std::vector<const Gpu*>, std::shared_ptr<const NodeGraph>> graphs{{usual, node_}};
  for (const ClusterDescription::OddGpu& odd : description_.odd_gpus) {
    const int node = odd.number / description_.gpus_per_node;
    if (odd.kind == 0 || node >= node_count() || (!odd_nodes_.empty() && odd_nodes_.back().first == node)) continue;
    std::vector<const Gpu*> gpus;
    for (std::size_t i = 0; i < per_node; ++i) {
      gpus.push_back(&description_.gpu_at(node * description_.gpus_per_node + static_cast<int>(i)));
    }
    auto& known = graphs[gpus];
    if (known == nullptr) known = std::make_shared<NodeGraph>(description_, rates, gpus);
    odd_nodes_.emplace_back(node, known);
  }
  if (node_count() > 1 && description_.oversubscription > 1.0)
    for (int nic = 0; nic < description_.nics; ++nic)
      fabric_share_ +=
          node_->links()[node_->links_of_nic(nic).front().index()].link.rate / description_.oversubscription;

  for (const ClusterDescription::Override& slow : description_.overrides) {
    if (slow.node < 0 || slow.node >= node_count() || !(slow.factor > 0.0)) continue;
    std::vector<LinkId> local;
    if (slow.link == "nic") local = node_->links_of_nic(slow.index);
    if (slow.link == "nvlink") local = node_->links_of_gpu(slow.index, LinkKind::nvlink);
    if (slow.link == "pcie") local = node_->links_of_gpu(slow.index, LinkKind::pcie);
    for (const LinkId link : local)
      slowed_.emplace_back(LinkId(static_cast<std::size_t>(slow.node) * node_->links().size() + link.index()),
                           slow.factor);
  }
  std::stable_sort(slowed_.begin(), slowed_.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
}

const NodeGraph& Cluster::graph(int node) const {
  const auto odd = std::lower_bound(odd_nodes_.begin(), odd_nodes_.end(), node,
                                    [](const auto& entry, int wanted) { return entry.first < wanted; });
  return odd != odd_nodes_.end() && odd->first == node ? *odd->second : *node_;
}

int Cluster::pcie_generation() const { return foretrain::pcie_generation(description_.gpu, description_.host); }

std::size_t Cluster::link_count() const {
  const auto nodes = static_cast<std::size_t>(node_count());
  return nodes * node_->links().size() + (fabric_share_.value > 0.0 ? 2 * nodes : 0);
}

Link Cluster::link(LinkId id) const {
  if (id.index() >= link_count()) throw std::out_of_range("no such link");
  const std::size_t per_node = node_->links().size();
  if (id.index() >= per_node * static_cast<std::size_t>(node_count()))
    return {LinkKind::fabric, fabric_share_, fabric_share_};
  const auto node = static_cast<int>(id.index() / per_node);
  Link link = graph(node).links()[id.index() % per_node].link;
  auto slow = std::lower_bound(slowed_.begin(), slowed_.end(), id, [](const auto& a, LinkId b) { return a.first < b; });
  for (; slow != slowed_.end() && slow->first == id; ++slow) link.rate *= slow->second;
  return link;
}

LinkId Cluster::further(LinkId id, int nodes) const {
  const std::size_t per_node = node_->links().size();
  const bool of_fabric = id.index() >= per_node * static_cast<std::size_t>(node_count());
  const auto moved =
      static_cast<std::ptrdiff_t>(id.index()) + nodes * static_cast<std::ptrdiff_t>(of_fabric ? 2 : per_node);
  return LinkId(static_cast<std::size_t>(moved));
}

std::string Cluster::link_name(LinkId id) const {
  const Link named = link(id);
  const std::size_t per_node = node_->links().size(), nodes = static_cast<std::size_t>(node_count());
  const std::string kind = std::string(" (") + to_string(named.kind) + ")";
  if (id.index() < per_node * nodes)
    return "node " + std::to_string(id.index() / per_node) + ": " + node_->links()[id.index() % per_node].name() + kind;
  const std::size_t fabric = id.index() - per_node * nodes;
  return "node " + std::to_string(fabric / 2) + (fabric % 2 == 0 ? ": up to spine" : ": down from spine") + kind;
}

namespace {

struct Location {
  int node = 0, local = 0;
};

Location locate(const ClusterDescription& description, int gpu) {
  if (gpu < 0 || gpu >= description.gpus) throw std::out_of_range("no such GPU");
  return {gpu / description.gpus_per_node, gpu % description.gpus_per_node};
}

}  // namespace

std::vector<Hop> Cluster::route(int from_gpu, int to_gpu) const {
  const Location from = locate(description_, from_gpu), to = locate(description_, to_gpu);
  if (from.node == to.node)
    return placed(graph(from.node).gpu_to_gpu(from.local, to.local),
                  static_cast<std::size_t>(from.node) * node_->links().size());
  const NicRange out = nics_of(from_gpu), in = nics_of(to_gpu);
  const int lanes = std::max(out.last - out.first, in.last - in.first);
  std::vector<Hop> hops;
  for (int lane = 0; lane < lanes; ++lane) {
    const int from_nic = out.first + lane % (out.last - out.first), to_nic = in.first + lane % (in.last - in.first);
    add_hops(hops, leave(from_gpu, from_nic), 1.0 / lanes);
    add_hops(hops, across_fabric(from.node, from_nic, to.node, to_nic), 1.0 / lanes);
    add_hops(hops, enter(to_gpu, to_nic), 1.0 / lanes);
  }
  return hops;
}

std::vector<Hop> Cluster::route_to_host(int gpu) const {
  const Location at = locate(description_, gpu);
  return placed(graph(at.node).gpu_to_host(at.local), static_cast<std::size_t>(at.node) * node_->links().size());
}

std::vector<Hop> Cluster::route_from_host(int gpu) const {
  const Location at = locate(description_, gpu);
  return placed(graph(at.node).host_to_gpu(at.local), static_cast<std::size_t>(at.node) * node_->links().size());
}

std::vector<Hop> Cluster::host_cores(int gpu) const {
  const Location at = locate(description_, gpu);
  return placed(graph(at.node).cores(), static_cast<std::size_t>(at.node) * node_->links().size());
}

std::vector<Hop> Cluster::host_memory(int gpu) const {
  const Location at = locate(description_, gpu);
  return placed(graph(at.node).memory(), static_cast<std::size_t>(at.node) * node_->links().size());
}

std::vector<Hop> Cluster::nvme_to_host(int gpu) const {
  const Location at = locate(description_, gpu);
  return placed(graph(at.node).nvme_to_host(at.local), static_cast<std::size_t>(at.node) * node_->links().size());
}

std::vector<Hop> Cluster::host_to_nvme(int gpu) const {
  const Location at = locate(description_, gpu);
  return placed(graph(at.node).host_to_nvme(at.local), static_cast<std::size_t>(at.node) * node_->links().size());
}

Cluster::NicRange Cluster::nics_of(int gpu) const {
  return nics_dealt_to(locate(description_, gpu).local, description_.gpus_per_node, description_.nics);
}

std::vector<Hop> Cluster::leave(int gpu, int nic) const {
  const Location at = locate(description_, gpu);
  if (nic < 0 || nic >= description_.nics) throw std::out_of_range("no such NIC");
  return placed(graph(at.node).gpu_to_nic(at.local, nic), static_cast<std::size_t>(at.node) * node_->links().size());
}

std::vector<Hop> Cluster::enter(int gpu, int nic) const {
  const Location at = locate(description_, gpu);
  if (nic < 0 || nic >= description_.nics) throw std::out_of_range("no such NIC");
  return placed(graph(at.node).nic_to_gpu(at.local, nic), static_cast<std::size_t>(at.node) * node_->links().size());
}

std::vector<Hop> Cluster::across_fabric(int from_node, int from_nic, int to_node, int to_nic) const {
  const bool same_leaf = description_.rail_optimised && from_nic == to_nic;
  if (fabric_share_.value <= 0.0 || from_node == to_node || same_leaf) return {};
  const std::size_t first = static_cast<std::size_t>(node_count()) * node_->links().size();
  return {{LinkId(first + 2 * static_cast<std::size_t>(from_node)), 1.0},
          {LinkId(first + 2 * static_cast<std::size_t>(to_node) + 1), 1.0}};
}

std::vector<Hop> Cluster::ring_within_node(std::span<const int> gpus) const {
  if (gpus.size() < 2) return {};
  const int node = locate(description_, gpus[0]).node;
  unsigned members = 0;  // of a cube mesh, whose GPUs are at most 8
  std::vector<Hop> hops;
  for (const int gpu : gpus) {
    const Location at = locate(description_, gpu);
    if (at.node != node) throw std::invalid_argument("a ring within a node has GPUs of one node");
    members |= 1u << (at.local % 8);
  }
  const NodeGraph& here = graph(node);
  const auto hop = [&](int from, int to, double weight) { add_hops(hops, here.gpu_to_gpu(from, to), weight); };
  const auto local = [&](std::size_t i) { return gpus[i % gpus.size()] % description_.gpus_per_node; };

  const MeshRings* cube = here.cube_rings(members);
  if (cube != nullptr && !cube->empty()) {
    // Each ring runs both ways, each way with half of its share.
    const double share = 0.5 / static_cast<double>(cube->size());
    for (const std::vector<int>& ring : *cube)
      for (std::size_t i = 0; i < ring.size(); ++i) {
        const int a = ring[i], b = ring[(i + 1) % ring.size()];
        hop(a, b, share);
        hop(b, a, share);
      }
  } else if (cube != nullptr) {
    // No ring exists, so some hops pass through a neighbour; both ways share the work.
    for (std::size_t i = 0; i < gpus.size(); ++i) {
      hop(local(i), local(i + 1), 0.5);
      hop(local(i + 1), local(i), 0.5);
    }
  } else if (description_.intra == Intra::nvlink_mesh) {
    const double share = 1.0 / static_cast<double>(gpus.size() - 1);
    for (std::size_t i = 0; i < gpus.size(); ++i)
      for (std::size_t j = 0; j < gpus.size(); ++j)
        if (i != j) hops.push_back({here.gpu_to_gpu(local(i), local(j)).front().link, share});
  } else if (description_.intra == Intra::nvswitch) {
    hops.reserve(2 * gpus.size());  // every GPU sends into the switch and receives from it: no link twice
    for (std::size_t i = 0; i < gpus.size(); ++i) {
      const std::span<const Hop> path = here.gpu_to_gpu(local(i), local(i + 1));
      hops.insert(hops.end(), path.begin(), path.end());
    }
  } else {
    for (std::size_t i = 0; i < gpus.size(); ++i) hop(local(i), local(i + 1), 1.0);
  }
  return placed(hops, static_cast<std::size_t>(node) * node_->links().size());
}

Cluster::Medium Cluster::medium(int a, int b) const {
  const Location from = locate(description_, a), to = locate(description_, b);
  if (from.node != to.node) return Medium::network;
  const NodeGraph& here = graph(from.node);
  const std::span<const Hop> path = here.gpu_to_gpu(from.local, to.local);
  const auto is_nvlink = [&](const Hop& h) { return here.links()[h.link.index()].link.kind == LinkKind::nvlink; };
  if (std::all_of(path.begin(), path.end(), is_nvlink)) return Medium::nvlink;
  return description_.p2p ? Medium::pcie_p2p : Medium::host_memory;
}

bool Cluster::has_multicast(int gpu) const {
  const Gpu& own = description_.gpu_at(gpu);
  return description_.intra == Intra::nvswitch && own.nvlink && own.nvlink->generation >= 4;
}

bool Cluster::gpu_direct() const { return foretrain::gpu_direct(description_); }

}  // namespace foretrain
