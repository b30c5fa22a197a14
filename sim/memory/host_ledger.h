#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sim/memory/ledger.h"

namespace foretrain {

// What offloading holds in a host's memory, for all its ranks.
struct HostMemoryParts {
  Bytes optimizer, gradients, weights;
  Bytes activations;      // of all micro-batches in flight
  Bytes staging_buffers;  // between drives and GPUs
  Bytes rounding;         // page-locked buffers are as large as the next power of two
  Bytes processes;        // of the ranks themselves

  Bytes total() const;
  std::vector<std::pair<std::string, Bytes>> named() const;
  HostMemoryParts& operator+=(const HostMemoryParts& other);
};

struct HostMemory {
  HostMemoryParts parts;  // of the host that holds most
  Bytes nvme;             // on that host's drives
};

// `activations`: of one rank of each stage, the most it has on the host at a time. A rank's page-locked pool never
// shrinks, so what a host needs is the sum of its ranks' peaks, whenever each of them is.
HostMemory host_memory(const Case& subject, const std::vector<StageLayout>& layouts,
                       std::span<const Bytes> activations);

}  // namespace foretrain
