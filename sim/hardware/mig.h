#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/diagnostics.h"
#include "sim/base/units.h"

namespace foretrain {

namespace config {
class MapReader;
}

// One kind of slice that NVIDIA's Multi-Instance GPU cuts from a card, with its own SMs, memory, bandwidth and cache.
struct MigProfile {
  std::string name;  // "3g.20gb": 3 of the card's 7 compute slices, about 20 GB
  Bytes memory;      // that a process can use
  int sm_count = 0;
  int memory_slices = 0;    // of the card's; bandwidth and L2 cache are divided like the memory
  std::vector<int> starts;  // memory slices where it may begin
  int copy_engines = 1;
};

// How a card may be cut: `mig` of its file in hardware/gpus.
struct Mig {
  int memory_slices = 8;
  std::vector<MigProfile> profiles;

  const MigProfile* find(std::string_view name) const;
  std::vector<std::string> names() const;
  // Whether one card can hold these slices at a time: each has a place where it may begin and none overlap.
  bool holds(std::span<const MigProfile* const> slices) const;
  // How many slices of one profile a card holds.
  int most(const MigProfile& profile) const;
};

// Reads `mig` of a GPU's file; nullopt where there is none.
std::optional<Mig> read_mig(config::MapReader& gpu, int sm_count, Bytes memory, Diagnostics& diagnostics);

}  // namespace foretrain
