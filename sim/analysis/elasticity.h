#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/base/time.h"

namespace foretrain {

struct Case;
struct Environment;
struct FoldedJob;

// What a step can wait for, each with a speed of its own.
enum class HardwareRate : std::uint8_t {
  matmul,            // FLOP/s of products and attention, in every precision
  memory_bandwidth,  // of the GPU's own memory
  kernel_latency,    // device time to start a kernel
  host,              // time the host takes to issue kernels
  nvlink,
  pcie,  // and the links between sockets
  nic,   // network cards and the fabric
  host_memory,
  network_latency,  // of messages and collectives, inside nodes too
  host_cores,       // of an optimizer on the host, and of copies from pageable memory
  nvme,
};
inline constexpr std::size_t kHardwareRates = 11;
std::string_view to_string(HardwareRate rate);

// What the step time gains from faster hardware: -d ln(step time) / d ln(rate) over one percent around the present
// rate, by simulation, so that everything counts that the rate changes: shared links, what hides behind what, which
// algorithm a collective takes. Where two costs are equal (compute and the host's launches, say) a faster rate gains
// less than a slower one loses; the value is then between the two.
struct Elasticity {
  std::array<double, kHardwareRates> of{};
  double other = 0;       // the rest to 1: what no rate shortens, as the fixed cost of a step
  bool offloads = false;  // the plan uses host cores and drives
  double& operator[](HardwareRate rate) { return of[static_cast<std::size_t>(rate)]; }
  double operator[](HardwareRate rate) const { return of[static_cast<std::size_t>(rate)]; }
  std::vector<std::pair<std::string_view, double>> named() const;  // host_cores and nvme only of plans that offload
};

// Precondition: the micro-batch is known. Takes two simulations for each rate that matters. `folded`: Step::folded of
// the case, if it was simulated before; other rates fold alike, unless hosts do work, whose loads are made of rates.
Elasticity elasticity(const Case& subject, const Environment& environment,
                      std::shared_ptr<const FoldedJob> folded = nullptr);
// The same for one rate, from simulations with the rate times `factor` and divided by it.
double elasticity_to(const Case& subject, const Environment& environment, HardwareRate rate, double factor,
                     const std::shared_ptr<const FoldedJob>& folded = nullptr);

}  // namespace foretrain
