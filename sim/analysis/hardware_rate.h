#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "sim/analysis/case_report.h"

namespace foretrain {

// A case and the constants it is simulated with: all that a step time follows from.
struct Setup {
  Case subject;
  Environment environment;
};

// The set-up with one of its rates times `factor` (latencies and host times divided by it), and nothing else changed:
// the one way to ask what faster hardware would do. What belongs to a rate is listed at hardware_rate.cpp; together the
// rates are everything that takes time but the fixed cost of a step and of starting a copy to or from the host.
Setup with_faster(Setup setup, HardwareRate rate, double factor);

// Whether a step of the case can depend on the rate at all.
bool matters(const Case& subject, HardwareRate rate);

}  // namespace foretrain
