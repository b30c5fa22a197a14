#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/calibration/constant_files.h"
#include "sim/hardware/host_rates.h"

namespace foretrain {

// One large copy: over PCIe (x16) from or to pinned or pageable memory, NVLink, or to or from an array of NVMe drives.
struct TransferSample {
  enum class Link { pcie, pcie_pageable, nvlink, nvme_read, nvme_write };
  Link link = Link::pcie;
  int generation = 4;
  int drives = 1;
  BytesPerSecond rate;  // one way; of the whole array
  // A drive kept less than busy: bytes under way, and what it reaches when it is busy. Such a row says nothing of the
  // rates of large transfers.
  Bytes in_flight;
  BytesPerSecond busy_rate;
  std::string source;
};
// One step of Adam in fp32 on a host.
struct OptimizerSample {
  std::string code;  // "deepspeed", "torch", "torch_2020"
  std::string cpu;
  int cores = 0;                       // that work on it
  std::optional<BytesPerSecond> dram;  // of all sockets, by the datasheet
  double params = 0.0, seconds = 0.0;
};
struct HostMeasurements {
  std::vector<TransferSample> transfers;
  std::vector<OptimizerSample> optimizers;
};

// Reads the files of the folders that hold lists `transfers` or `optimizers` (format: hardware/measurements/README.md).
HostMeasurements load_host_measurements(std::span<const std::string> paths, Diagnostics& diagnostics);

// The medians of groups of rows, as constants of hosts.yaml and links.yaml. Copies by kind and generation, drives one
// by one; the bytes in flight that give half of a drive's rate. Adam by code: time of a parameter on a core, and the
// share of the DRAM bandwidth reached with the bytes a parameter that `given` has for the code; whichever bounds first
// holds.
std::vector<ConstantFit> fit_hosts(const HostMeasurements& measurements, const HostRates& given);

}  // namespace foretrain
