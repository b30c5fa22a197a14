#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "sim/base/time.h"

namespace foretrain::engine {

inline constexpr std::int64_t kLastInstant = std::int64_t{1} << 62;  // in picoseconds: 53 days

// How long work takes at a constant rate: the next whole picosecond, at least one; none for no work. A few units in
// the last place are not a picosecond: 1.1 s of work at rate 1 are 1.1e12 ps although the product of the doubles is a
// little more. Throws std::overflow_error beyond kLastInstant.
inline Time work_duration(double work, double rate) {
  if (work == 0.0) return Time::zero();
  constexpr double kRounding = 4.0 * std::numeric_limits<double>::epsilon();
  const double ps = work / rate * 1e12;
  if (!(ps < static_cast<double>(kLastInstant))) throw std::overflow_error("simulated time exceeds 2^62 ps");
  return Time{std::max<std::int64_t>(1, static_cast<std::int64_t>(std::ceil(ps * (1.0 - kRounding))))};
}

}  // namespace foretrain::engine
