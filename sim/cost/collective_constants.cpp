#include <string>

#include "sim/config/reader.h"
#include "sim/cost/collective.h"

namespace foretrain {

namespace {

constexpr config::Range kMicroseconds{0.0, 1e5};
constexpr config::Range kSize{1e-3, 1e9};
constexpr config::Range kFraction{1e-3, 1.0};
constexpr config::Range kExponent{0.0, 4.0};
constexpr double kKiB = 1024.0;

// One section of the file: reads its numbers, asks for its source, refuses what it does not know.
class Section {
 public:
  Section(config::MapReader& file, const char* key, Diagnostics& diagnostics)
      : diagnostics_(diagnostics), reader_(value_of(file, key), diagnostics, key) {}
  ~Section() { reader_.finish(); }
  Section(const Section&) = delete;
  Section& operator=(const Section&) = delete;

  double number(const char* key, config::Range range) {
    return reader_.required_number(key, config::Unit::count, range);
  }
  ByGeneration by_generation(const char* key) { return read_by_generation(reader_, key, 1.0, diagnostics_); }
  NetworkLatency network(const char* key) {
    config::MapReader map(value_of(reader_, key), diagnostics_, key);
    NetworkLatency result;
    result.latency_us = map.required_number("latency", config::Unit::count, kMicroseconds);
    result.hop_us = map.required_number("hop", config::Unit::count, kMicroseconds);
    result.plugin = map.boolean("plugin").value_or(false);
    result.tree = map.boolean("tree").value_or(true);
    map.finish();
    return result;
  }
  void source() { reader_.required_text("source"); }

 private:
  const config::Node& value_of(config::MapReader& parent, const char* key) {
    const config::Node* node = parent.node(key);
    return node != nullptr ? *node : absent_;
  }

  config::Node absent_;
  Diagnostics& diagnostics_;
  config::MapReader reader_;
};

}  // namespace

std::optional<CollectiveConstants> load_collective_constants(const DataFolder& data, Diagnostics& diagnostics) {
  const auto file = config::parse_yaml_file(data.path + "/hardware/calibrated/collectives.yaml", diagnostics);
  return file ? read_collective_constants(*file, diagnostics) : std::nullopt;
}

std::optional<CollectiveConstants> read_collective_constants(const config::Node& file, Diagnostics& diagnostics) {
  const int errors_before = diagnostics.error_count();
  CollectiveConstants c;
  config::MapReader reader(file, diagnostics, "collectives");
  {
    Section latency(reader, "latency", diagnostics);
    c.ring_base_us = latency.number("ring_base", kMicroseconds);
    c.tree_base_us = latency.number("tree_base", kMicroseconds);
    c.network_hop_ring_us = latency.number("hop_ring_network", kMicroseconds);
    c.network_hop_tree_us = latency.number("hop_tree_network", kMicroseconds);
    c.intra_hop_nvlink_us = latency.number("hop_nvlink", kMicroseconds);
    c.intra_hop_pcie_us = latency.number("hop_pcie", kMicroseconds);
    c.intra_hop_spanning_us = latency.number("hop_spanning", kMicroseconds);
    c.send_us = latency.number("send", kMicroseconds);
    c.all_to_all_us = latency.number("all_to_all", kMicroseconds);
    c.send_network_us = latency.number("send_network", kMicroseconds);
    latency.source();
  }
  {
    Section ramp(reader, "bandwidth_protocol", diagnostics);
    c.k0_us = ramp.number("base", kMicroseconds);
    c.k_nvlink_us = ramp.number("hop_nvlink", kMicroseconds);
    c.k_pcie_us = ramp.number("hop_pcie", kMicroseconds);
    c.k_host_us = ramp.number("hop_host_memory", kMicroseconds);
    c.s1_per_rank = {ramp.number("s1_kib_per_rank", kSize) * kKiB};
    c.s1_per_rank_host = {ramp.number("s1_kib_per_rank_host_memory", kSize) * kKiB};
    c.s1_per_rank_network = {ramp.number("s1_kib_per_rank_network", kSize) * kKiB};
    c.exponent = ramp.number("exponent", kExponent);
    c.exponent_network = ramp.number("exponent_network", kExponent);
    ramp.source();
  }
  {
    Section nvls(reader, "nvls", diagnostics);
    c.nvls_base_us = nvls.number("base_us", kMicroseconds);
    c.nvls_ramp_us = nvls.number("ramp_us", kMicroseconds);
    c.nvls_s1 = {nvls.number("s1_mib", kSize) * kMiB};
    c.low_latency_fraction = nvls.number("low_latency_fraction", kFraction);
    c.nvls_of_ring = nvls.by_generation("of_ring");
    c.nvls_large_domain_exponent = nvls.number("large_domain_exponent", kExponent);
    c.nvls_tree_fraction = nvls.number("tree_fraction", kFraction);
    nvls.source();
  }
  {
    Section tree(reader, "tree", diagnostics);
    c.tree_network_fraction_two_nodes = tree.number("network_fraction_two_nodes", kFraction);
    tree.source();
  }
  {
    Section operations(reader, "operations", diagnostics);
    c.all_gather_fraction = operations.number("all_gather", kFraction);
    c.reduce_scatter_fraction = operations.number("reduce_scatter", kFraction);
    c.broadcast_fraction = operations.number("broadcast", kFraction);
    c.send_fraction = operations.number("send", kFraction);
    c.all_to_all_fraction = operations.number("all_to_all", kFraction);
    c.send_of_staged_ring = operations.number("send_of_staged_ring", {0.5, 2.0});
    c.few_steps_gen3 = operations.number("few_steps_gen3", {0.0, 10.0});
    operations.source();
  }
  {
    Section pcie(reader, "pcie", diagnostics);
    c.pcie_ring_fraction = pcie.by_generation("ring_fraction");
    c.pcie_root_complex_fraction = pcie.by_generation("root_complex_fraction");
    pcie.source();
  }
  {
    Section networks(reader, "networks", diagnostics);
    c.infiniband = networks.network("infiniband");
    c.rdma_staged = networks.network("rdma_staged");
    c.roce = networks.network("roce");
    c.efa_volta = networks.network("efa_volta");
    c.efa_ampere = networks.network("efa_ampere");
    c.efa_hopper = networks.network("efa_hopper");
    c.efa_blackwell = networks.network("efa_blackwell");
    c.ethernet = networks.network("ethernet");
    c.omni_path = networks.network("omni_path");
    networks.source();
  }
  reader.finish();
  if (diagnostics.error_count() > errors_before) return std::nullopt;
  return c;
}

const NetworkLatency& network_latency(const Cluster& cluster, const CollectiveConstants& constants) {
  switch (cluster.description().network) {
    case NetworkKind::infiniband:
      return cluster.gpu_direct() ? constants.infiniband : constants.rdma_staged;
    case NetworkKind::roce:
      return cluster.gpu_direct() ? constants.roce : constants.rdma_staged;
    case NetworkKind::ethernet:
      return constants.ethernet;
    case NetworkKind::omni_path:
      return constants.omni_path;
    case NetworkKind::efa:
      break;
  }
  const std::string& architecture = cluster.gpu().architecture;
  if (architecture == "volta") return constants.efa_volta;
  if (architecture == "ampere") return constants.efa_ampere;
  if (architecture == "blackwell") return constants.efa_blackwell;
  return constants.efa_hopper;
}

}  // namespace foretrain
