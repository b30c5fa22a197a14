#include "sim/hardware/cluster_description.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "sim/hardware/cluster.h"
#include "sim/hardware/cluster_host.h"
#include "sim/hardware/cluster_overrides.h"
#include "sim/hardware/cluster_reading.h"
#include "sim/hardware/cluster_slices.h"
#include "sim/hardware/cluster_template.h"
#include "sim/hardware/nvlink_domain.h"

namespace foretrain {
namespace {

using config::MapReader;
using config::Node;
using config::Unit;

constexpr double kMostGpus = 1e6;
// GPUs in most nodes that train; taken when nothing says otherwise.
constexpr int kUsualNode = 8;
constexpr std::array kIntras = {Intra::nvswitch, Intra::nvlink_mesh, Intra::nvlink_pairs, Intra::pcie_switch,
                                Intra::pcie};
constexpr std::array kNetworks = {NetworkKind::infiniband, NetworkKind::roce, NetworkKind::ethernet, NetworkKind::efa,
                                  NetworkKind::omni_path};

using Reading = ClusterReading;

// --- how many GPUs, in how many nodes

void check_whole_nodes(Reading& read) {
  const int gpus = read.cluster.gpus, per_node = read.cluster.gpus_per_node;
  if (gpus <= per_node || gpus % per_node == 0) return;
  const int below = gpus / per_node * per_node;
  int fitting = per_node - 1;
  while (gpus % fitting != 0) --fitting;
  read.map.error("gpus", message("cluster.gpus={} does not fill nodes of {}; {} or {} GPUs would, or "
                                 "gpus_per_node: {}",
                                 gpus, per_node, below, below + per_node, fitting));
}

void read_counts(Reading& read) {
  MapReader& map = read.map;
  ClusterDescription& cluster = read.cluster;
  const std::optional<int> gpus = read_int(map, "gpus", {1, kMostGpus});
  const std::optional<int> nodes = read_int(map, "nodes", {1, kMostGpus});
  std::optional<int> per_node = read_int(map, "gpus_per_node", {1, kMaxGpusPerNode});
  // A catalogue node counts its cards.
  if (per_node && !read.scenario_says("gpus_per_node")) *per_node *= cluster.slices_per_card();
  if (per_node && *per_node > kMaxGpusPerNode) {
    map.error("mig", message("cluster.mig makes {} slices of a node's cards; at most {} are simulated, with "
                             "gpus_per_node: {}",
                             *per_node, kMaxGpusPerNode, kMaxGpusPerNode));
    per_node = kMaxGpusPerNode;
  }

  if (!gpus && !map.has("gpus") && !nodes && cluster.node_name.empty()) {
    map.error("gpus", message("cluster.gpus is missing; give the number of GPUs of the job, or a catalogue node"));
  }
  if (per_node) {
    cluster.gpus_per_node = *per_node;
  } else if (gpus && nodes && *gpus % *nodes == 0) {
    cluster.gpus_per_node = std::min(*gpus / *nodes, kMaxGpusPerNode);
  } else if (gpus) {
    cluster.gpus_per_node = std::min(*gpus, kUsualNode * cluster.slices_per_card());
    if (*gpus > 1 && !map.has("gpus_per_node")) {
      read.assume(message("gpus_per_node is taken as {}", cluster.gpus_per_node));
    }
  } else if (nodes && !map.has("gpus_per_node")) {
    map.error("nodes", message("cluster.gpus_per_node is missing; nodes alone do not say how many GPUs there are"));
  }

  if (gpus) {
    cluster.gpus = *gpus;
    if (nodes && cluster.nodes() != *nodes) {
      map.error("nodes", message("cluster.nodes={} does not go with {} GPUs in nodes of {}; leave out nodes or gpus",
                                 *nodes, *gpus, cluster.gpus_per_node));
    }
    check_whole_nodes(read);
  } else if (nodes && *nodes > static_cast<int>(kMostGpus) / cluster.gpus_per_node) {
    map.error("nodes", message("cluster.nodes={} of {} GPUs are more than {} GPUs; take fewer", *nodes,
                               cluster.gpus_per_node, fmt::format("{:.0f}", kMostGpus)));
  } else {
    cluster.gpus = nodes.value_or(1) * cluster.gpus_per_node;
  }
}

// --- how the GPUs of a node reach each other

Intra usual_intra(const Gpu& gpu) {
  if (!gpu.nvlink || gpu.nvlink->bridge) return Intra::pcie;
  const std::string usual = nvlink_layouts(gpu).front();
  for (Intra intra : kIntras) {
    if (usual == to_string(intra)) return intra;
  }
  return Intra::pcie;
}

void check_nvlink(Reading& read) {
  const ClusterDescription& cluster = read.cluster;
  const std::string intra = to_string(cluster.intra);
  std::vector<std::string> legal = nvlink_layouts(cluster.gpu);
  if (std::find(legal.begin(), legal.end(), intra) == legal.end()) {
    const Message why = cluster.gpu.nvlink ? message("{} is not built with {}", cluster.gpu.name, intra)
                                           : message("{} has no NVLink, so no {}", cluster.gpu.name, intra);
    legal.emplace_back(to_string(Intra::pcie_switch));
    legal.emplace_back(to_string(Intra::pcie));
    read.map.error("intra", message("cluster.intra: {}; right would be {}", why, fmt::join(legal, ", ")));
  }
  if (cluster.intra == Intra::nvlink_mesh && cluster.gpus_per_node > 8) {
    read.map.error("intra", message("cluster.intra: nvlink-mesh joins at most 8 GPUs, not {}; right would be "
                                    "nvswitch, or gpus_per_node: 8",
                                    cluster.gpus_per_node));
  }
  if (cluster.intra == Intra::nvlink_pairs && cluster.gpus_per_node > 1 && cluster.gpus_per_node % 2 != 0) {
    read.map.error("intra", message("cluster.intra: nvlink-pairs needs an even number of GPUs in a node, not {}",
                                    cluster.gpus_per_node));
  }
}

void read_intra(Reading& read, bool gpu_known) {
  ClusterDescription& cluster = read.cluster;
  const auto given = read_enum(read.map, "intra", kIntras);
  const bool p2p_given = read.map.has("p2p");
  cluster.intra = given.value_or(usual_intra(cluster.gpu));
  cluster.p2p = read.map.boolean("p2p").value_or(cluster.gpu.p2p_over_pcie);
  const auto sharing = read_int(read.map, "gpus_per_pcie_switch", {1, kMaxGpusPerNode});
  const int cards = cluster.cards_per_node();
  cluster.gpus_per_pcie_switch = std::min(sharing.value_or(2), cards);
  if (!gpu_known) return;
  if (!cluster.mig.empty()) settle_intra_of_slices(read, given);

  const bool several = cluster.gpus_per_node > 1;
  if (several && !read.map.has("intra") && cluster.mig.empty()) {
    read.assume(message("intra is taken as {}, usual for {}", to_string(cluster.intra), cluster.gpu.name));
  }
  if (uses_nvlink(cluster.intra)) check_nvlink(read);
  if (cluster.intra == Intra::pcie_switch) {
    if (!sharing && several) {
      read.assume(message("gpus_per_pcie_switch is taken as {}", cluster.gpus_per_pcie_switch));
    }
    if (cards % cluster.gpus_per_pcie_switch != 0) {
      read.map.error("gpus_per_pcie_switch",
                     message("cluster.gpus_per_pcie_switch={} does not divide the {} GPUs of a node",
                             cluster.gpus_per_pcie_switch, cards));
    }
  }
  if (p2p_given && cluster.p2p && !cluster.gpu.p2p_over_pcie) {
    read.diagnostics.warning(
        read.map.position_of("p2p"),
        message("the driver of {} refuses P2P over PCIe; p2p: true needs a patched driver", cluster.gpu.name));
  }
}

// --- the network between nodes

int read_nic_count(Reading& read) {
  const Node* nics = read.map.node("nics");
  if (nics != nullptr && nics->is_scalar() && nics->scalar() == "per-gpu") return read.cluster.cards_per_node();
  return read_int(read.map, "nics", {0, kMaxNicsPerNode}).value_or(0);
}

void read_network(Reading& read) {
  MapReader& map = read.map;
  ClusterDescription& cluster = read.cluster;
  cluster.nics = read_nic_count(read);
  const auto rate = map.number("nic_gbps", Unit::network_rate, {1e6, 1e13});
  cluster.nic_rate = {rate.value_or(0.0)};
  const auto network = read_enum(map, "net", kNetworks);
  cluster.oversubscription = map.number("oversubscription", Unit::count, {1, 1000}).value_or(1.0);
  cluster.rail_optimised = map.boolean("rail_optimised").value_or(true);

  const bool fast = cluster.nic_rate >= gigabits_per_second(100);
  cluster.network = network.value_or(fast ? NetworkKind::infiniband : NetworkKind::ethernet);
  if (cluster.nodes() == 1) {
    if (!rate) cluster.nics = 0;  // there is nothing to reach over them
    return;
  }
  std::vector<std::string> missing;
  if (cluster.nics == 0) missing.emplace_back("nics");
  if (!rate && !map.has("nic_gbps")) missing.emplace_back("nic_gbps");
  if (!missing.empty()) {
    map.error(missing.front(),
              missing.size() == 2
                  ? message("cluster: {} GPUs in {} nodes need a network, nics and nic_gbps are missing; give nics, "
                            "nic_gbps and net, or a fabric",
                            cluster.gpus, cluster.nodes())
                  : message("cluster: {} GPUs in {} nodes need a network, {} is missing; give nics, nic_gbps and "
                            "net, or a fabric",
                            cluster.gpus, cluster.nodes(), missing.front()));
  } else if (!network && !map.has("net")) {
    read.assume(message("net is taken as {}", to_string(cluster.network)));
  }
}

// --- power, and what is not built

void read_power_limit(Reading& read) {
  ClusterDescription& cluster = read.cluster;
  const auto watts = read.map.number("power_limit_w", Unit::watts, {10, 1e5});
  if (!watts) return;
  cluster.power_limit_watts = *watts;
  if (*watts < 0.5 * cluster.gpu.tdp_watts) {
    read.diagnostics.warning(
        read.map.position_of("power_limit_w"),
        message("{} W is less than half of the {} W of {}; the effect of power limits "
                "was measured from 55 to 90 %",
                fmt::format("{:.0f}", *watts), fmt::format("{:.0f}", cluster.gpu.tdp_watts), cluster.gpu.name));
  }
}

// Last of all: everything before speaks of single hosts.
void refuse_what_is_not_built(Reading& read, SourcePosition node_asked_at) {
  const auto domain = read_int(read.map, "nvlink_domain", {1, kMostGpus});
  const ClusterDescription& cluster = read.cluster;
  if (!domain || *domain <= cluster.gpus_per_node || cluster.gpus <= cluster.gpus_per_node) return;
  if (*domain > kMaxGpusPerNode || cluster.intra != Intra::nvswitch) {
    read.diagnostics.unsupported(std::move(node_asked_at), message("cluster.nvlink_domain"));
    return;
  }
  join_hosts_of_domain(read.cluster, *domain);
  if (cluster.nics > kMaxNicsPerNode) {
    read.map.error("nics", message("cluster.nics: the {} GPUs that NVLink joins have {} NICs; at most {} are "
                                   "simulated, so give every host fewer",
                                   cluster.gpus_per_node, cluster.nics, kMaxNicsPerNode));
  }
}

}  // namespace

bool uses_nvlink(Intra intra) { return intra != Intra::pcie && intra != Intra::pcie_switch; }

std::vector<std::string> nvlink_layouts(const Gpu& gpu) {
  if (!gpu.nvlink) return {};
  if (!gpu.nvlink->layouts.empty()) return gpu.nvlink->layouts;
  return {to_string(Intra::nvswitch), to_string(Intra::nvlink_mesh), to_string(Intra::nvlink_pairs)};
}

ClusterDescription::OddGpu ClusterDescription::oddity_of(int number) const {
  const auto odd = std::lower_bound(odd_gpus.begin(), odd_gpus.end(), number,
                                    [](const OddGpu& o, int wanted) { return o.number < wanted; });
  return odd != odd_gpus.end() && odd->number == number ? *odd : OddGpu{number, 0, 1.0};
}

std::vector<const Gpu*> ClusterDescription::unlike_gpus() const {
  std::vector<const Gpu*> found{&gpu};
  for (const Gpu& other : other_gpus) {
    const auto same = [&](const Gpu* known) { return known->name == other.name; };
    if (std::none_of(found.begin(), found.end(), same)) found.push_back(&other);
  }
  return found;
}

const char* to_string(Intra intra) {
  switch (intra) {
    case Intra::nvswitch:
      return "nvswitch";
    case Intra::nvlink_mesh:
      return "nvlink-mesh";
    case Intra::nvlink_pairs:
      return "nvlink-pairs";
    case Intra::pcie_switch:
      return "pcie-switch";
    case Intra::pcie:
      return "pcie";
  }
  return "";
}

const char* to_string(NetworkKind kind) {
  switch (kind) {
    case NetworkKind::infiniband:
      return "infiniband";
    case NetworkKind::roce:
      return "roce";
    case NetworkKind::ethernet:
      return "ethernet";
    case NetworkKind::efa:
      return "efa";
    case NetworkKind::omni_path:
      return "omni-path";
  }
  return "";
}

std::optional<ClusterDescription> read_cluster(const Node& node, const DataFolder& data, Diagnostics& diagnostics) {
  const int errors_before = diagnostics.error_count();
  std::optional<ClusterTemplate> filled = fill_from_catalogue(node, data, diagnostics);
  if (!filled) return std::nullopt;

  ClusterDescription cluster;
  cluster.node_name = std::move(filled->node_name);
  cluster.fabric_name = std::move(filled->fabric_name);
  cluster.assumptions = std::move(filled->cautions);
  MapReader map(filled->merged, diagnostics, "cluster");
  for (const char* read_already : {"node", "fabric", "topo"}) map.has(read_already);

  const std::string gpu_name = map.required_text("gpu");
  std::optional<Gpu> gpu;
  if (!gpu_name.empty()) gpu = load_gpu(data, gpu_name, map.position_of("gpu"), diagnostics);
  const bool gpu_known = gpu.has_value();
  if (gpu) cluster.gpu = std::move(*gpu);

  Reading read{map, node, cluster, diagnostics, data, cluster.gpu};
  map.has("mig");
  if (gpu_known) read_mig(read);
  read_counts(read);
  settle_slices_per_card(read);
  read_intra(read, gpu_known);
  read_network(read);
  read_host(read);
  if (gpu_known) read_power_limit(read);
  map.has("power_limit_w");
  read_overrides(read);
  const Node* domain = node.find("nvlink_domain");
  const Node* catalogue_node = node.find("node");
  refuse_what_is_not_built(read, domain != nullptr           ? domain->position
                                 : catalogue_node != nullptr ? catalogue_node->position
                                                             : node.position);
  map.finish();
  if (diagnostics.error_count() > errors_before) return std::nullopt;
  return cluster;
}

}  // namespace foretrain
