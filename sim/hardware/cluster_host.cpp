#include "sim/hardware/cluster_host.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace foretrain {

using config::MapReader;
using config::Node;
using config::Unit;

namespace {

constexpr std::array kBoards = {Board::server, Board::desktop};

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

}  // namespace

const char* to_string(Board board) { return board == Board::server ? "server" : "desktop"; }

void read_host(ClusterReading& read) {
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

}  // namespace foretrain
