#include "sim/analysis/hardware_rate.h"

namespace foretrain {
namespace {

void multiply(ByGeneration& table, double factor) {
  for (int generation = 0; generation < ByGeneration::kGenerations; ++generation) {
    if (double* own = table.own(generation)) *own *= factor;
  }
}

void multiply(std::optional<BytesPerSecond>& rate, BytesPerSecond otherwise, double factor) {
  rate = rate.value_or(otherwise) * factor;
}

void faster_matmul(Gpu& gpu, double factor) {
  for (auto& rate : gpu.dense_rate) {
    if (rate) *rate *= factor;
  }
}

void faster_kernel_starts(Gpu& gpu, double factor) {
  gpu.achieved.kernel_floor *= 1.0 / factor;
  gpu.achieved.elementwise_floor *= 1.0 / factor;
}

void faster_host(Software& s, double factor) {
  Software::Experts& e = s.experts;
  for (double* time : {&s.host_forward_ms, &s.host_backward_ms, &s.host_tensor_parallel_ms, &s.host_zero3_hook_ms,
                       &s.unfused_softmax_forward_ms, &s.unfused_softmax_backward_ms, &s.micro_batch_overhead_ms,
                       &e.host_forward_ms, &e.host_backward_ms, &e.stall_ms, &e.call_us}) {
    *time /= factor;
  }
}

void faster_nvlink(Gpu& gpu, double factor) {
  if (gpu.nvlink) gpu.nvlink->per_direction *= factor;
  gpu.c2c *= factor;
  gpu.c2c_copy *= factor;
}

void faster_pcie(LinkRates& links, double factor) {
  for (ByGeneration* table : {&links.pcie_copy, &links.pcie_datasheet, &links.socket}) multiply(*table, factor);
}

void faster_nics(Setup& setup, double factor) {
  setup.subject.cluster.nic_rate *= factor;
  setup.environment.link_rates.ethernet_node_limit *= factor;
}

// Copies between GPUs through host memory are bound there, as far as PCIe is not.
void faster_host_memory(Setup& setup, double factor) {
  setup.subject.cluster.host.dram_bandwidth_per_socket *= factor;
  multiply(setup.environment.link_rates.staging_server, factor);
  multiply(setup.environment.link_rates.staging_desktop, factor);
}

void shorter_latencies(CollectiveConstants& c, double factor) {
  for (double* us :
       {&c.ring_base_us, &c.tree_base_us, &c.network_hop_ring_us, &c.network_hop_tree_us, &c.intra_hop_nvlink_us,
        &c.intra_hop_pcie_us, &c.intra_hop_spanning_us, &c.send_us, &c.send_network_us, &c.all_to_all_us, &c.k0_us,
        &c.k_nvlink_us, &c.k_pcie_us, &c.k_host_us, &c.nvls_base_us, &c.nvls_ramp_us}) {
    *us /= factor;
  }
  for (NetworkLatency* network : {&c.infiniband, &c.rdma_staged, &c.roce, &c.efa_volta, &c.efa_ampere, &c.efa_hopper,
                                  &c.efa_blackwell, &c.ethernet, &c.omni_path}) {
    network->latency_us /= factor;
    network->hop_us /= factor;
  }
}

// Pageable memory is copied by a thread of the host (see HostRates).
void faster_host_cores(HostRates& hosts, double factor) {
  for (HostRates::Adam* adam : {&hosts.deepspeed, &hosts.torch, &hosts.torch_2020}) {
    adam->core_per_parameter *= 1.0 / factor;
  }
  multiply(hosts.pageable_copy, factor);
}

void faster_drives(HostDescription& host, double factor) {
  multiply(host.nvme_read, kOneDriveReads, factor);
  multiply(host.nvme_write, kOneDriveWrites, factor);
}

}  // namespace

Setup with_faster(Setup setup, HardwareRate rate, double factor) {
  std::vector<Gpu*> gpus = {&setup.subject.cluster.gpu};
  for (Gpu& other : setup.subject.cluster.other_gpus) gpus.push_back(&other);
  Environment& environment = setup.environment;
  switch (rate) {
    case HardwareRate::matmul:
      for (Gpu* gpu : gpus) faster_matmul(*gpu, factor);
      break;
    case HardwareRate::memory_bandwidth:
      for (Gpu* gpu : gpus) gpu->memory_bandwidth *= factor;
      break;
    case HardwareRate::kernel_latency:
      for (Gpu* gpu : gpus) faster_kernel_starts(*gpu, factor);
      break;
    case HardwareRate::host:
      faster_host(setup.subject.software, factor);
      break;
    case HardwareRate::nvlink:
      for (Gpu* gpu : gpus) faster_nvlink(*gpu, factor);
      break;
    case HardwareRate::pcie:
      faster_pcie(environment.link_rates, factor);
      break;
    case HardwareRate::nic:
      faster_nics(setup, factor);
      break;
    case HardwareRate::host_memory:
      faster_host_memory(setup, factor);
      break;
    case HardwareRate::network_latency:
      shorter_latencies(environment.collectives, factor);
      break;
    case HardwareRate::host_cores:
      faster_host_cores(environment.hosts, factor);
      break;
    case HardwareRate::nvme:
      faster_drives(setup.subject.cluster.host, factor);
      break;
  }
  return setup;
}

bool matters(const Case& subject, HardwareRate rate) {
  const bool several = subject.cluster.gpus > 1, offloads = subject.plan.offload.any();
  switch (rate) {
    case HardwareRate::matmul:
    case HardwareRate::memory_bandwidth:
    case HardwareRate::kernel_latency:
    case HardwareRate::host:
      return true;
    case HardwareRate::nvlink:
    case HardwareRate::pcie:
    case HardwareRate::host_memory:
      return several || offloads;
    case HardwareRate::nic:
      return subject.cluster.nodes() > 1;
    case HardwareRate::network_latency:
      return several;
    case HardwareRate::host_cores:
    case HardwareRate::nvme:
      return offloads;
  }
  return true;
}

}  // namespace foretrain
