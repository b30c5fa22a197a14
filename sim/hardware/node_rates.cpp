#include "sim/hardware/node_rates.h"

#include <algorithm>

#include "sim/hardware/node_graph.h"

namespace foretrain {
namespace {

Link pcie(const LinkRates& rates, int generation, int lanes) {
  const double width = std::clamp(lanes, 1, 16) / 16.0;
  return {LinkKind::pcie, {rates.pcie_copy.at(generation) * width}, {rates.pcie_datasheet.at(generation) * width}};
}

// What a NIC moves in one direction: some of its line rate.
double nic_rate(const NodeRates& of) {
  const ClusterDescription& node = of.node;
  const LinkRates& rates = of.rates;
  const double line = node.nic_rate.value;
  switch (node.network) {
    case NetworkKind::infiniband:
    case NetworkKind::roce: {
      const bool near = node.intra != Intra::pcie && node.intra != Intra::nvlink_pairs && gpu_direct(node);
      return line * (near ? rates.rdma : rates.rdma_staged);
    }
    case NetworkKind::efa:
      return line * (of.gpu(0).architecture == "blackwell" ? rates.efa_blackwell : rates.efa);
    case NetworkKind::ethernet:
      return line * rates.ethernet;
    case NetworkKind::omni_path:
      return line * rates.omni_path;
  }
  return line;
}

}  // namespace

int hosts_of(const ClusterDescription& node) {
  return node.gpus_per_host > 0 ? node.gpus_per_node / node.gpus_per_host : 1;
}

Link NodeRates::nvlink(std::size_t index, double share, bool bridge) const {
  const Gpu::NvLink& own = *gpu(index).nvlink;
  const auto& table = bridge ? rates.nvlink_bridge_fraction : rates.nvlink_fraction;
  const double datasheet = own.per_direction.value * share;
  return {LinkKind::nvlink, {datasheet * table.at(own.generation)}, {datasheet}};
}

Link NodeRates::nvlink(std::size_t a, std::size_t b, double share, bool bridge) const {
  const Link of_a = nvlink(a, share, bridge), of_b = nvlink(b, share, bridge);
  return of_b.rate < of_a.rate ? of_b : of_a;
}

Link NodeRates::gpu_pcie(std::size_t index) const {
  return pcie(rates, pcie_generation(gpu(index), node.host), gpu(index).pcie_lanes);
}

Link NodeRates::host_pcie() const { return pcie(rates, node.host.pcie_generation, 16); }

Link NodeRates::socket() const {
  const double rate = rates.socket.at(node.host.pcie_generation);
  return {LinkKind::socket, {rate}, {rate}};
}

Link NodeRates::dram() const {
  const BytesPerSecond datasheet = node.host.dram_bandwidth_per_socket;
  return {LinkKind::host_memory, datasheet * rates.dram_fraction, datasheet};
}

Link NodeRates::staging(std::size_t index) const {
  const Board usual = gpu(index).p2p_over_pcie ? Board::server : Board::desktop;
  const auto& table = node.host.board.value_or(usual) == Board::server ? rates.staging_server : rates.staging_desktop;
  const Link up = gpu_pcie(index);
  const double ring = std::min(table.at(pcie_generation(gpu(index), node.host)), up.rate.value);
  return {LinkKind::host_staging, {2.0 * ring}, 2.0 * up.datasheet};
}

Link NodeRates::c2c(std::size_t index) const { return {LinkKind::nvlink, gpu(index).c2c_copy, gpu(index).c2c}; }

Link NodeRates::cores(std::size_t sockets) const {
  const BytesPerSecond rate{1e9 * node.host.cores / static_cast<double>(sockets)};
  return {LinkKind::cpu, rate, rate};
}

Link NodeRates::nic() const { return {LinkKind::nic, {nic_rate(*this)}, node.nic_rate}; }

std::optional<Link> NodeRates::tcp_sockets() const {
  if (node.network != NetworkKind::ethernet) return std::nullopt;
  const BytesPerSecond limit = rates.ethernet_node_limit * hosts_of(node), line = node.nic_rate * node.nics;
  if (limit >= line * rates.ethernet) return std::nullopt;
  return Link{LinkKind::nic, limit, line};
}

}  // namespace foretrain
