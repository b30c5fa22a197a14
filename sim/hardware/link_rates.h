#pragma once

#include <array>
#include <optional>

#include "sim/base/diagnostics.h"
#include "sim/base/units.h"
#include "sim/hardware/gpu.h"

namespace foretrain {

// A value per generation of a link (NVLink 2 to 5, PCIe 3 to 5). A generation that is not listed takes the value of
// the nearest older one, or of the oldest.
class ByGeneration {
 public:
  static constexpr int kGenerations = 10;  // 0 .. 9
  void set(int generation, double value);
  bool empty() const;
  // Precondition: not empty().
  double at(int generation) const;
  // What was set for this very generation, or nullptr. Precondition of it and of set(): 0 <= generation < kGenerations.
  double* own(int generation);

 private:
  std::array<std::optional<double>, kGenerations> values_{};
};

// What links reach in large copies and collectives: hardware/calibrated/links.yaml, where each value has its source.
struct LinkRates {
  ByGeneration nvlink_fraction;         // of the datasheet rate, by NVLink generation
  ByGeneration nvlink_bridge_fraction;  // the same for a bridge between two cards
  ByGeneration pcie_copy;               // bytes/s one way, x16, by PCIe generation
  ByGeneration pcie_datasheet;          // bytes/s one way, x16
  ByGeneration socket;                  // bytes/s one way between two sockets, by the host's PCIe generation
  // Bytes/s of a ring through host memory (no P2P): boxes whose GPUs could do P2P, and boxes whose driver refuses it.
  ByGeneration staging_server, staging_desktop;
  double dram_fraction = 0.0;
  // NIC plateau / line rate.
  double rdma = 0.0, rdma_staged = 0.0, efa = 0.0, efa_blackwell = 0.0, ethernet = 0.0, omni_path = 0.0;
  BytesPerSecond ethernet_node_limit;  // what one node's TCP sockets reach together
};

// Reads the file; nullopt after reporting what is wrong with it.
std::optional<LinkRates> load_link_rates(const DataFolder& data, Diagnostics& diagnostics);

namespace config {
struct Node;
class MapReader;
}  // namespace config
// The same of a file already parsed.
std::optional<LinkRates> read_link_rates(const config::Node& file, Diagnostics& diagnostics);

// Reads {gen3: X, gen4: Y, ...} under `key`, each value times `scale`; at least one generation must be given.
ByGeneration read_by_generation(config::MapReader& parent, std::string_view key, double scale,
                                Diagnostics& diagnostics);

}  // namespace foretrain
