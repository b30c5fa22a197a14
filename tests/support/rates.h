#pragma once

#include <doctest/doctest.h>

#include <algorithm>
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

// Elasticities against simulations with the rate a percent higher and a percent lower. Where they differ, the step has
// a kink within that percent, which is named in `kinks`: the slopes on its sides differ, and the elasticity is one of
// them or between them.
inline void check_elasticities(const std::string& name, const Case& subject, std::set<std::string>& kinks) {
  const Elasticity e = elasticity(subject, environment());
  for (const HardwareRate rate : all_rates()) {
    CAPTURE(name);
    CAPTURE(std::string(to_string(rate)));
    std::vector<double> log_times;  // half a percent apart
    for (const double percent : {-1.0, -0.5, 0.0, 0.5, 1.0}) {
      log_times.push_back(std::log(time_with(subject, rate, std::pow(1.01, percent)).seconds()));
    }
    const double over_two_percent = (log_times.front() - log_times.back()) / std::log(1.01) / 2;
    if (std::abs(e[rate] - over_two_percent) <= 1e-3) continue;
    std::vector<double> slopes;
    for (std::size_t i = 1; i < log_times.size(); ++i) {
      slopes.push_back((log_times[i - 1] - log_times[i]) / std::log(1.01) * 2);
    }
    const auto [least, most] = std::minmax_element(slopes.begin(), slopes.end());
    CHECK(e[rate] >= *least - 1e-3);
    CHECK(e[rate] <= *most + 1e-3);
    CHECK(*most - *least > 2e-3);
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
