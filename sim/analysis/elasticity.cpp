#include "sim/analysis/elasticity.h"

#include <cmath>

#include "sim/analysis/hardware_rate.h"

namespace foretrain {
namespace {

// Half a percent either way: the second order vanishes (its square), and where a schedule has many small kinks, each of
// a micro-batch or a layer, one of them at the very point does not decide.
const double kProbe = std::sqrt(1.01);

}  // namespace

std::string_view to_string(HardwareRate rate) {
  constexpr std::array<std::string_view, kHardwareRates> names = {
      "matmul", "memory_bandwidth", "kernel_latency",  "host",       "nvlink", "pcie",
      "nic",    "host_memory",      "network_latency", "host_cores", "nvme"};
  return names[static_cast<std::size_t>(rate)];
}

std::vector<std::pair<std::string_view, double>> Elasticity::named() const {
  std::vector<std::pair<std::string_view, double>> all;
  for (std::size_t i = 0; i < kHardwareRates; ++i) {
    const auto rate = static_cast<HardwareRate>(i);
    const bool of_offload = rate == HardwareRate::host_cores || rate == HardwareRate::nvme;
    if (!of_offload || offloads) all.emplace_back(to_string(rate), of[i]);
  }
  all.emplace_back("other", other);
  return all;
}

double elasticity_to(const Case& subject, const Environment& environment, HardwareRate rate, double factor,
                     const std::shared_ptr<const FoldedJob>& folded) {
  const auto log_time = [&](double times) {
    const Setup changed = with_faster({subject, environment}, rate, times);
    return std::log(step_time(changed.subject, changed.environment, folded).seconds());
  };
  return (log_time(1.0 / factor) - log_time(factor)) / (2.0 * std::log(factor));
}

Elasticity elasticity(const Case& subject, const Environment& environment, std::shared_ptr<const FoldedJob> folded) {
  Elasticity result;
  result.offloads = subject.plan.offload.any();
  result.other = 1.0;
  if (result.offloads) folded = nullptr;
  for (std::size_t i = 0; i < kHardwareRates; ++i) {
    const auto rate = static_cast<HardwareRate>(i);
    if (!matters(subject, rate)) continue;
    result.of[i] = elasticity_to(subject, environment, rate, kProbe, folded);
    result.other -= result.of[i];
  }
  return result;
}

}  // namespace foretrain
