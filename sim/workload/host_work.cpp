#include "sim/workload/host_work.h"

#include <algorithm>
#include <limits>

#include "sim/workload/communicators.h"

namespace foretrain {
namespace {

// Clipping reads and writes the fp32 gradients once more before the step.
constexpr double kClipBytes = 8;
// Issuing an asynchronous copy and starting the copy engine: about 10 us (CUDA C++ best practices guide).
constexpr double kCopyLatency = 10e-6;

HostRates::Adam adam_of(const HostRates& rates, Software::Offload::Adam code) {
  if (code == Software::Offload::Adam::torch) return rates.torch;
  if (code == Software::Offload::Adam::torch_2020) return rates.torch_2020;
  // On one core a fused step takes no longer than PyTorch's, which does the same in several passes; its own
  // measurements are of whole hosts, where the cores wait for memory.
  HostRates::Adam fused = rates.deepspeed;
  fused.core_per_parameter = std::min(fused.core_per_parameter, rates.torch.core_per_parameter);
  return fused;
}

// What plain copies reach of the datasheet bandwidth of the host's memory.
double dram_fraction(const Cluster& cluster) {
  for (const Hop& hop : cluster.host_memory(0)) {
    const Link dram = cluster.link(hop.link);
    return dram.rate / dram.datasheet;
  }
  return 1.0;
}

std::vector<LinkLoad> loads(std::initializer_list<std::pair<std::span<const Hop>, double>> parts) {
  std::vector<LinkLoad> sum;
  for (const auto& [hops, weight] : parts) {
    for (const Hop& hop : hops) {
      const auto known = std::find_if(sum.begin(), sum.end(), [&](const LinkLoad& l) { return l.link == hop.link; });
      if (known != sum.end())
        known->bytes_per_unit += weight * hop.bytes_per_byte;
      else
        sum.push_back({hop.link, weight * hop.bytes_per_byte});
    }
  }
  std::sort(sum.begin(), sum.end(), [](const LinkLoad& a, const LinkLoad& b) { return a.link < b.link; });
  return sum;
}

// A copy crosses its links once; from pageable memory the host first copies it to a page-locked buffer.
std::vector<LinkLoad> copy_loads(const Cluster& cluster, std::vector<Hop> route, double memory) {
  for (Hop& hop : route) {
    if (cluster.link(hop.link).kind == LinkKind::host_memory) hop.bytes_per_byte *= memory;
  }
  return loads({{route, 1.0}});
}

}  // namespace

HostWork host_work(const Case& c, const Cluster& cluster, const HostRates& rates) {
  const Software::Offload& offload = c.software.offload;
  HostWork work;
  if (!c.plan.offload.any()) return work;
  work.latency = {kCopyLatency};
  work.copy_cap = {std::numeric_limits<double>::infinity()};
  // A GPU that shares the CPU's page tables (NVLink-C2C) copies from any memory.
  if (!offload.pinned && c.cluster.gpu.c2c.value <= 0) {
    work.copy_cap = {rates.pageable_copy.at(cluster.pcie_generation())};
    work.copy_memory = 3;
  }
  const HostRates::Adam adam = adam_of(rates, offload.adam);
  // An optimizer's streams reach less of the DRAM than the plain copies that the link's rate is for.
  const double of_plain = dram_fraction(cluster) / adam.dram_fraction;
  const double passes =
      (c.train.clip_gradients ? kClipBytes : 0.0) + (c.plan.offload.zero_stage == 3 ? offload.stage3_pass_bytes : 0.0);
  work.memory_bytes = (adam.dram_per_parameter.value + passes) * of_plain;
  // A core streams through the other passes as fast as through Adam's.
  work.core_ns = adam.core_per_parameter.value * 1e9 * (1.0 + passes / adam.dram_per_parameter.value);
  const int ranks = std::min(c.cluster.gpus, c.cluster.gpus_per_node);
  const int share = std::max(1, c.cluster.host.cores / ranks);
  const int threads = ranks == 1 || offload.threads_per_rank == 0 ? share : std::min(share, offload.threads_per_rank);
  work.parameters_per_s = threads * 1e9 / work.core_ns;
  const HostDescription& host = c.cluster.host;
  const auto drives = [&](BytesPerSecond all) {
    return nvme_rate(all, rates.nvme_block, rates.nvme_queue_depth, rates);
  };
  work.nvme_read = drives(host.nvme_read.value_or(kOneDriveReads));
  work.nvme_write = drives(host.nvme_write.value_or(kOneDriveWrites));
  return work;
}

double host_units(Purpose purpose, double amount, const HostWork& host) {
  return purpose == Purpose::host_work ? amount * host.memory_bytes : amount;
}

std::vector<LinkLoad> host_loads(Purpose purpose, int rank, const Cluster& cluster, const HostWork& host) {
  switch (purpose) {
    case Purpose::to_host:
      return copy_loads(cluster, cluster.route_to_host(rank), host.copy_memory);
    case Purpose::from_host:
      return copy_loads(cluster, cluster.route_from_host(rank), host.copy_memory);
    case Purpose::host_work:
      return loads({{cluster.host_cores(rank), host.core_ns / host.memory_bytes}, {cluster.host_memory(rank), 1.0}});
    case Purpose::nvme_read:
      return loads({{cluster.nvme_to_host(rank), 1.0}});
    case Purpose::nvme_write:
      return loads({{cluster.host_to_nvme(rank), 1.0}});
    default:
      return {};
  }
}

double host_rate(Purpose purpose, const HostWork& host) {
  switch (purpose) {
    case Purpose::host_work:
      return host.parameters_per_s * host.memory_bytes;
    case Purpose::nvme_read:
      return host.nvme_read.value;
    case Purpose::nvme_write:
      return host.nvme_write.value;
    default:
      return host.copy_cap.value;
  }
}

}  // namespace foretrain
