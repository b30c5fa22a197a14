#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/hardware/gpu.h"
#include "sim/hardware/link_rates.h"

namespace foretrain {

// One large copy: over PCIe (x16), NVLink, or to or from an array of NVMe drives.
struct TransferSample {
  enum class Link { pcie, nvlink, nvme_read, nvme_write };
  Link link = Link::pcie;
  int generation = 4;
  int drives = 1;
  BytesPerSecond rate;  // one way; of the whole array
};
// One step of Adam in fp32 on a host.
struct OptimizerSample {
  std::string code;  // "deepspeed", "torch"
  int cores = 0;
  BytesPerSecond dram;  // of all sockets, by the datasheet
  double params = 0.0, seconds = 0.0;
};
struct HostMeasurements {
  std::vector<TransferSample> transfers;
  std::vector<OptimizerSample> optimizers;
};

// Reads the files of the folders that hold lists `transfers` or `optimizers` (format: hardware/measurements/README.md).
HostMeasurements load_host_measurements(std::span<const std::string> paths, Diagnostics& diagnostics);

// The median of one group of rows.
struct HostRate {
  std::string name;  // "pcie gen4", "nvme-read gen5, a drive", "deepspeed Adam of DRAM bandwidth" ...
  double fitted = 0.0, lowest = 0.0, highest = 0.0;  // GB/s; G parameters/s a core; or a fraction
  std::size_t rows = 0;
  std::optional<double> in_use;  // what links.yaml has for it
};
// Copies by kind and generation. Optimizers by code: the share of the DRAM bandwidth they reach (28 bytes a parameter,
// read and written) and parameters per second and core; whichever bounds first holds.
std::vector<HostRate> fit_hosts(const HostMeasurements& measurements, const LinkRates& rates);

}  // namespace foretrain
