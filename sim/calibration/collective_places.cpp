#include "sim/calibration/collective_places.h"

#include <fmt/format.h>

#include <utility>

namespace foretrain {
namespace {

using C = CollectiveConstants;
using R = LinkRates;

constexpr double kMebi = 1024.0 * 1024.0, kKibi = 1024.0;
constexpr int kGenerations = 10;

class Places {
 public:
  explicit Places(const CollectiveModel& model) : model_(model) {}

  void add(std::string name, double C::*member) {
    list_.push_back(
        {"collectives." + std::move(name), [member](CollectiveModel& m) -> double& { return m.constants.*member; }});
  }
  void add(std::string name, Bytes C::*member, double unit) {
    list_.push_back({"collectives." + std::move(name),
                     [member](CollectiveModel& m) -> double& { return (m.constants.*member).value; }, unit});
  }
  void add(std::string name, double R::*member) {
    list_.push_back({"links." + std::move(name), [member](CollectiveModel& m) -> double& { return m.rates.*member; }});
  }
  void add(const std::string& name, ByGeneration C::*member) {
    by_generation("collectives." + name, 1.0,
                  [member](CollectiveModel& m) -> ByGeneration& { return m.constants.*member; });
  }
  void add(const std::string& name, ByGeneration R::*member, double unit) {
    by_generation("links." + name, unit, [member](CollectiveModel& m) -> ByGeneration& { return m.rates.*member; });
  }
  void add(const std::string& name, NetworkLatency C::*network) {
    list_.push_back({"collectives.networks." + name + ".latency",
                     [network](CollectiveModel& m) -> double& { return (m.constants.*network).latency_us; }});
    list_.push_back({"collectives.networks." + name + ".hop",
                     [network](CollectiveModel& m) -> double& { return (m.constants.*network).hop_us; }});
  }
  void add_node_limit() {
    list_.push_back({"links.nic.ethernet_node_limit",
                     [](CollectiveModel& m) -> double& { return m.rates.ethernet_node_limit.value; }, kGiga});
  }
  std::vector<CollectivePlace> take() { return std::move(list_); }

 private:
  void by_generation(const std::string& name, double unit,
                     const std::function<ByGeneration&(CollectiveModel&)>& values) {
    CollectiveModel copy = model_;
    for (int g = 0; g < kGenerations; ++g) {
      if (values(copy).own(g) == nullptr) continue;
      list_.push_back({fmt::format("{}.gen{}", name, g),
                       [values, g](CollectiveModel& m) -> double& { return *values(m).own(g); }, unit});
    }
  }

  const CollectiveModel& model_;
  std::vector<CollectivePlace> list_;
};

}  // namespace

std::vector<CollectivePlace> collective_places(const CollectiveModel& model) {
  Places places(model);
  places.add("latency.ring_base", &C::ring_base_us);
  places.add("latency.tree_base", &C::tree_base_us);
  places.add("latency.hop_ring_network", &C::network_hop_ring_us);
  places.add("latency.hop_tree_network", &C::network_hop_tree_us);
  places.add("latency.hop_nvlink", &C::intra_hop_nvlink_us);
  places.add("latency.hop_pcie", &C::intra_hop_pcie_us);
  places.add("latency.hop_spanning", &C::intra_hop_spanning_us);
  places.add("latency.send", &C::send_us);
  places.add("latency.send_network", &C::send_network_us);
  places.add("latency.all_to_all", &C::all_to_all_us);
  places.add("bandwidth_protocol.base", &C::k0_us);
  places.add("bandwidth_protocol.hop_nvlink", &C::k_nvlink_us);
  places.add("bandwidth_protocol.hop_pcie", &C::k_pcie_us);
  places.add("bandwidth_protocol.hop_host_memory", &C::k_host_us);
  places.add("bandwidth_protocol.s1_kib_per_rank", &C::s1_per_rank, kKibi);
  places.add("bandwidth_protocol.s1_kib_per_rank_host_memory", &C::s1_per_rank_host, kKibi);
  places.add("bandwidth_protocol.s1_kib_per_rank_network", &C::s1_per_rank_network, kKibi);
  places.add("bandwidth_protocol.exponent", &C::exponent);
  places.add("bandwidth_protocol.exponent_network", &C::exponent_network);
  places.add("nvls.base_us", &C::nvls_base_us);
  places.add("nvls.ramp_us", &C::nvls_ramp_us);
  places.add("nvls.s1_mib", &C::nvls_s1, kMebi);
  places.add("nvls.low_latency_fraction", &C::low_latency_fraction);
  places.add("nvls.of_ring", &C::nvls_of_ring);
  places.add("nvls.large_domain_exponent", &C::nvls_large_domain_exponent);
  places.add("nvls.tree_fraction", &C::nvls_tree_fraction);
  places.add("tree.network_fraction_two_nodes", &C::tree_network_fraction_two_nodes);
  places.add("operations.all_gather", &C::all_gather_fraction);
  places.add("operations.reduce_scatter", &C::reduce_scatter_fraction);
  places.add("operations.broadcast", &C::broadcast_fraction);
  places.add("operations.send", &C::send_fraction);
  places.add("operations.all_to_all", &C::all_to_all_fraction);
  places.add("operations.send_of_staged_ring", &C::send_of_staged_ring);
  places.add("operations.few_steps_gen3", &C::few_steps_gen3);
  places.add("pcie.ring_fraction", &C::pcie_ring_fraction);
  places.add("pcie.root_complex_fraction", &C::pcie_root_complex_fraction);
  places.add("infiniband", &C::infiniband);
  places.add("rdma_staged", &C::rdma_staged);
  places.add("roce", &C::roce);
  places.add("efa_volta", &C::efa_volta);
  places.add("efa_ampere", &C::efa_ampere);
  places.add("efa_hopper", &C::efa_hopper);
  places.add("efa_blackwell", &C::efa_blackwell);
  places.add("ethernet", &C::ethernet);
  places.add("omni_path", &C::omni_path);
  places.add("nvlink.fraction", &R::nvlink_fraction, 1.0);
  places.add("nvlink.bridge_fraction", &R::nvlink_bridge_fraction, 1.0);
  places.add("socket.rate", &R::socket, kGiga);
  places.add("host_staging.server", &R::staging_server, kGiga);
  places.add("host_staging.desktop", &R::staging_desktop, kGiga);
  places.add("nic.rdma", &R::rdma);
  places.add("nic.rdma_staged", &R::rdma_staged);
  places.add("nic.efa", &R::efa);
  places.add("nic.efa_blackwell", &R::efa_blackwell);
  places.add("nic.ethernet", &R::ethernet);
  places.add("nic.omni_path", &R::omni_path);
  places.add_node_limit();
  return places.take();
}

}  // namespace foretrain
