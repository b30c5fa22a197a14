#pragma once

#include <stdexcept>
#include <string>

#include "sim/hardware/cluster.h"

// Machines for tests, described by hand so that a test does not depend on the catalogue.
namespace foretrain::test {

inline LinkRates link_rates() {
  Diagnostics diagnostics;
  auto rates = load_link_rates({FORETRAIN_SOURCE_DIR}, diagnostics);
  if (!rates) throw std::runtime_error(to_string(diagnostics.all().front()));
  return *rates;
}

inline Gpu gpu_with(std::string name, std::string architecture, int nvlink_generation, int links, double nvlink_gb,
                    int pcie, bool p2p = true) {
  Gpu gpu;
  gpu.name = std::move(name);
  gpu.architecture = std::move(architecture);
  if (links > 0) {
    Gpu::NvLink nvlink;
    nvlink.generation = nvlink_generation;
    nvlink.links = links;
    nvlink.per_direction = gigabytes_per_second(nvlink_gb);
    gpu.nvlink = nvlink;
  }
  gpu.pcie_generation = pcie;
  gpu.p2p_over_pcie = p2p;
  return gpu;
}

// Datasheet links of the GPUs that the tests use.
inline Gpu gpu_named(const std::string& name) {
  if (name == "v100") return gpu_with(name, "volta", 2, 6, 150, 3);
  if (name == "v100-pcie") return gpu_with(name, "volta", 0, 0, 0, 3);
  if (name == "a100") return gpu_with(name, "ampere", 3, 12, 300, 4);
  if (name == "a100-pcie") return gpu_with(name, "ampere", 3, 12, 300, 4);
  if (name == "h100") return gpu_with(name, "hopper", 4, 18, 450, 5);
  if (name == "h800") return gpu_with(name, "hopper", 4, 8, 200, 5);
  if (name == "h100-pcie") return gpu_with(name, "hopper", 4, 12, 300, 5);
  if (name == "b200") return gpu_with(name, "blackwell", 5, 18, 900, 5);
  if (name == "rtx2080ti") return gpu_with(name, "turing", 2, 2, 50, 3, false);
  if (name == "rtx3090") return gpu_with(name, "ampere", 3, 4, 56.25, 4, false);
  if (name == "rtx4090") return gpu_with(name, "ada", 0, 0, 0, 4, false);
  if (name == "rtx5090") return gpu_with(name, "blackwell", 0, 0, 0, 5, false);
  if (name == "rtxpro6000") return gpu_with(name, "blackwell", 0, 0, 0, 5);
  if (name == "l40s") return gpu_with(name, "ada", 0, 0, 0, 4);
  throw std::invalid_argument("no test GPU " + name);
}

inline ClusterDescription machine(const std::string& gpu, int gpus, int gpus_per_node, Intra intra) {
  ClusterDescription d;
  d.gpu = gpu_named(gpu);
  d.gpus = gpus;
  d.gpus_per_node = gpus_per_node;
  d.intra = intra;
  d.host.pcie_generation = d.gpu.pcie_generation;
  d.host.dram_bandwidth_per_socket = gigabytes_per_second(d.gpu.pcie_generation == 3   ? 128.0
                                                          : d.gpu.pcie_generation == 4 ? 204.8
                                                                                       : 307.2);
  return d;
}

inline ClusterDescription with_nics(ClusterDescription d, int nics, double gbps,
                                    NetworkKind kind = NetworkKind::infiniband) {
  d.nics = nics;
  d.nic_rate = gigabits_per_second(gbps);
  d.network = kind;
  return d;
}

}  // namespace foretrain::test
