#include "sim/hardware/cluster_description.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "sim/hardware/cluster.h"
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
constexpr std::array kBoards = {Board::server, Board::desktop};

template <class Enum, std::size_t N>
std::optional<Enum> read_enum(MapReader& map, std::string_view key, const std::array<Enum, N>& values) {
  std::vector<std::string> names;
  for (Enum value : values) names.emplace_back(to_string(value));
  const auto index = map.choice(key, names);
  return index ? std::optional(values[*index]) : std::nullopt;
}

std::optional<int> read_int(MapReader& map, std::string_view key, config::Range range) {
  const auto value = map.integer(key, range);
  return value ? std::optional(static_cast<int>(*value)) : std::nullopt;
}

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

// --- the host

// Traffic between GPUs that goes through host memory, so that the host's bandwidths decide how fast it is.
bool stages_through_host(const ClusterDescription& cluster) {
  if (cluster.p2p) return false;
  if (cluster.intra == Intra::nvlink_pairs) return cluster.gpus_per_node > 2;
  return cluster.gpus_per_node > 1 && !uses_nvlink(cluster.intra);
}

// Memory bandwidth of one server socket by PCIe generation, which dates the platform: 6 channels of DDR4-2666, 8 of
// DDR4-3200, 8 of DDR5-4800 (vendor specifications of Xeon Scalable, EPYC and Sapphire Rapids).
BytesPerSecond usual_dram_bandwidth(int pcie_generation) {
  if (pcie_generation <= 3) return gigabytes_per_second(128.0);
  return gigabytes_per_second(pcie_generation == 4 ? 204.8 : 307.2);
}

// Boards of GPUs joined by NVLink are built for two sockets; PCIe boxes of up to 4 GPUs mostly have one.
int usual_sockets(const ClusterDescription& cluster) {
  if (cluster.gpu.c2c.value > 0) return (cluster.gpus_per_node + 1) / 2;  // a Grace for one GPU or two
  const bool board = cluster.gpu.nvlink && !cluster.gpu.nvlink->bridge;
  return board || cluster.cards_per_node() > 4 ? 2 : 1;
}

// Physical cores of one server socket by PCIe generation, as above: Xeon Platinum 8168, 8358 and 8480 have 24, 32 and
// 56, an EPYC of the same time as many or more; Grace has 72.
int usual_cores(const ClusterDescription& cluster, int pcie_generation) {
  if (cluster.gpu.c2c.value > 0) return 72;
  if (pcie_generation <= 3) return 24;
  return pcie_generation == 4 ? 32 : 56;
}

void read_host(Reading& read) {
  ClusterDescription& cluster = read.cluster;
  const Node nothing;
  const Node* node = read.map.node("host");
  MapReader map(node == nullptr ? nothing : *node, read.diagnostics, "cluster.host");
  HostDescription& host = cluster.host;
  host.cpu = map.text("cpu").value_or("");
  host.board = read_enum(map, "board", kBoards);
  const auto sockets = read_int(map, "sockets", {1, 16});
  host.sockets = sockets.value_or(usual_sockets(cluster));
  if (const auto size = map.number("dram_gb", Unit::gigabytes, {1e9, 1e15})) host.dram = Bytes{*size};
  const auto generation = map.choice("pcie", {"gen3", "gen4", "gen5"});
  const int host_generation = generation ? static_cast<int>(*generation) + 3 : cluster.gpu.pcie_generation;
  host.pcie_generation = std::min(host_generation, cluster.gpu.pcie_generation);
  const auto dram_rate = map.number("dram_gbps", Unit::bytes_rate, {1e9, 1e14});
  host.dram_bandwidth_per_socket =
      dram_rate ? BytesPerSecond{*dram_rate / host.sockets} : usual_dram_bandwidth(host_generation);
  // Grace: 512 GB/s of LPDDR5X (vendor's datasheet of GB200).
  if (!dram_rate && cluster.gpu.c2c.value > 0) host.dram_bandwidth_per_socket = gigabytes_per_second(512);
  const auto cores = read_int(map, "cores", {1, 4096});
  host.cores = cores.value_or(host.sockets * usual_cores(cluster, host_generation));
  host.cores_assumed = !cores;
  constexpr config::Range kArray{1e6, 1e13};
  if (const auto rate = map.number("nvme_read_gbps", Unit::bytes_rate, kArray)) host.nvme_read = BytesPerSecond{*rate};
  if (const auto rate = map.number("nvme_write_gbps", Unit::bytes_rate, kArray))
    host.nvme_write = BytesPerSecond{*rate};
  map.finish();

  const bool crosses_sockets = cluster.gpus_per_node > 1 && !uses_nvlink(cluster.intra);
  if (crosses_sockets && !sockets) read.assume(message("host.sockets is taken as {}", host.sockets));
  if (!stages_through_host(cluster)) return;
  if (!host.board && !cluster.gpu.p2p_over_pcie) read.assume(message("host.board is taken as desktop"));
  if (!generation) read.assume(message("host.pcie is taken as gen{}", host.pcie_generation));
  if (!dram_rate) {
    read.assume(message("host.dram_gbps is taken as {}",
                        fmt::format("{:.1f}", host.dram_bandwidth_per_socket.value / kGiga * host.sockets)));
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

const char* to_string(Board board) { return board == Board::server ? "server" : "desktop"; }

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
