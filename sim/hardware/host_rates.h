#pragma once

#include <optional>

#include "sim/hardware/link_rates.h"

namespace foretrain {

// What hosts reach: hardware/calibrated/hosts.yaml, where each value has its measurements or its source.
struct HostRates {
  // One large copy between host memory and one GPU over x16, bytes/s one way, by PCIe generation. Pageable memory is
  // copied through a pinned buffer by one thread of the host, so it is bound by that thread and not by the link.
  ByGeneration pinned_copy, pageable_copy;
  // Drives: bytes/s of one at large transfers and a deep queue, by its PCIe generation. An array of them adds up.
  ByGeneration nvme_read, nvme_write;
  Bytes nvme_half_in_flight;  // with so many bytes asked for at once a drive reaches half of its rate
  Bytes nvme_block;           // what DeepSpeed asks a drive for at a time unless told otherwise ...
  int nvme_queue_depth = 1;   // ... and how many such requests are under way
  // An fp32 Adam step on the host.
  struct Adam {
    Seconds core_per_parameter;  // on one core that memory does not hold up
    Bytes dram_per_parameter;    // read and written
    double dram_fraction = 0.0;  // of the datasheet bandwidth of all sockets
  };
  Adam deepspeed;   // DeepSpeed's CPU Adam: fused and vectorised
  Adam torch;       // PyTorch 2: a few vectorised operations on each tensor
  Adam torch_2020;  // PyTorch 1: a loop of operations over each tensor
};

// Reads the file; nullopt after reporting what is wrong with it.
std::optional<HostRates> load_host_rates(const DataFolder& data, Diagnostics& diagnostics);
// The same of a file already parsed.
std::optional<HostRates> read_host_rates(const config::Node& file, Diagnostics& diagnostics);

// What one drive reaches of `large` (bytes/s, above) with `depth` requests of `block` under way: large x / (x + half),
// x the bytes in flight.
BytesPerSecond nvme_rate(BytesPerSecond large, Bytes block, double depth, const HostRates& rates);

// One step over `parameters` with `cores` of a host whose sockets' DRAM has `dram` bytes/s by the datasheet and nothing
// else to do: the cores or the memory, whichever takes longer.
Seconds adam_time(const HostRates::Adam& code, double parameters, double cores, BytesPerSecond dram);

}  // namespace foretrain
