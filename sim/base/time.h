#pragma once

#include <cmath>
#include <compare>
#include <cstdint>
#include <limits>
#include <stdexcept>

namespace foretrain {

// A point in simulated time or a duration, in whole picoseconds.
//
// Every duration is rounded once, where it is made; sums are then exact and do not depend on the order
// of evaluation, so ranks that do the same work end at the same instant. 2^63 ps are 106 days.
struct Time {
  std::int64_t ps = 0;

  static constexpr Time zero() { return Time{0}; }
  static constexpr Time max() { return Time{std::numeric_limits<std::int64_t>::max()}; }

  // The nearest picosecond. Throws std::domain_error for a negative, NaN or > 100 day duration: those are
  // faults of the program, never of its input (input is range-checked where it is read).
  static Time from_seconds(double seconds) {
    constexpr double kHundredDays = 8.64e6;
    if (!(seconds >= 0.0 && seconds <= kHundredDays)) throw std::domain_error("duration out of range");
    return Time{static_cast<std::int64_t>(std::llrint(seconds * 1e12))};
  }
  static Time from_microseconds(double us) { return from_seconds(us * 1e-6); }

  constexpr double seconds() const { return static_cast<double>(ps) * 1e-12; }

  constexpr auto operator<=>(const Time&) const = default;
  constexpr Time& operator+=(Time other) {
    ps += other.ps;
    return *this;
  }
  constexpr Time& operator-=(Time other) {
    ps -= other.ps;
    return *this;
  }
};

constexpr Time operator+(Time a, Time b) { return Time{a.ps + b.ps}; }
constexpr Time operator-(Time a, Time b) { return Time{a.ps - b.ps}; }
constexpr Time operator*(Time a, std::int64_t n) { return Time{a.ps * n}; }
constexpr Time operator*(std::int64_t n, Time a) { return a * n; }

}  // namespace foretrain
