#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "sim/analysis/hardware_rate.h"
#include "tests/support/cases.h"

// What must hold for faster hardware, on any case.
namespace foretrain::testing {

inline std::vector<HardwareRate> all_rates() {
  std::vector<HardwareRate> rates;
  for (std::size_t i = 0; i < kHardwareRates; ++i) rates.push_back(static_cast<HardwareRate>(i));
  return rates;
}

inline Time time_with(const Case& subject, HardwareRate rate, double factor) {
  const Setup changed = with_faster({subject, environment()}, rate, factor);
  return step_time(changed.subject, changed.environment);
}

// Elasticities against simulations with the rate a percent higher and a percent lower. Where the two differ, the step
// has a kink there: it is named in `kinks`, and the elasticity must be between them.
inline void check_elasticities(const std::string& name, const Case& subject, std::set<std::string>& kinks) {
  const Elasticity e = elasticity(subject, environment());
  const double now = std::log(step_time(subject, environment()).seconds());
  for (const HardwareRate rate : all_rates()) {
    CAPTURE(name);
    CAPTURE(std::string(to_string(rate)));
    const double gain = (now - std::log(time_with(subject, rate, 1.01).seconds())) / std::log(1.01);
    const double loss = (std::log(time_with(subject, rate, 1.0 / 1.01).seconds()) - now) / std::log(1.01);
    if (std::abs(e[rate] - 0.5 * (gain + loss)) <= 1e-3) continue;
    CHECK(e[rate] >= std::min(gain, loss) - 1e-3);
    CHECK(e[rate] <= std::max(gain, loss) + 1e-3);
    CHECK(std::abs(gain - loss) > 2e-3);
    kinks.insert(name + ": " + std::string(to_string(rate)));
  }
}

// A few parts in a million: kernels that are over sooner hide less of a transfer, which then meets others.
inline void check_twice_as_fast(const std::string& name, const Case& subject) {
  const Time now = step_time(subject, environment());
  for (const HardwareRate rate : all_rates()) {
    CAPTURE(name);
    CAPTURE(std::string(to_string(rate)));
    const Time twice = time_with(subject, rate, 2.0);
    CHECK(twice.seconds() <= now.seconds() * (1 + 1e-5));
    CHECK(twice.seconds() >= now.seconds() / 2 * (1 - 1e-5));
  }
}

}  // namespace foretrain::testing
