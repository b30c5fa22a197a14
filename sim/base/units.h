#pragma once

#include <compare>

#include "sim/base/time.h"

namespace foretrain {

// A physical quantity held as a double. Distinct tags do not mix: bytes cannot be added to FLOPs.
// Byte and FLOP counts are whole numbers below 2^53 and therefore exact.
template <class Tag>
struct Quantity {
  double value = 0.0;

  constexpr auto operator<=>(const Quantity&) const = default;
  constexpr Quantity& operator+=(Quantity other) {
    value += other.value;
    return *this;
  }
  constexpr Quantity& operator-=(Quantity other) {
    value -= other.value;
    return *this;
  }
  constexpr Quantity& operator*=(double factor) {
    value *= factor;
    return *this;
  }
};

template <class T>
constexpr Quantity<T> operator+(Quantity<T> a, Quantity<T> b) {
  return {a.value + b.value};
}
template <class T>
constexpr Quantity<T> operator-(Quantity<T> a, Quantity<T> b) {
  return {a.value - b.value};
}
template <class T>
constexpr Quantity<T> operator*(Quantity<T> a, double k) {
  return {a.value * k};
}
template <class T>
constexpr Quantity<T> operator*(double k, Quantity<T> a) {
  return {a.value * k};
}
template <class T>
constexpr Quantity<T> operator/(Quantity<T> a, double k) {
  return {a.value / k};
}
template <class T>
constexpr double operator/(Quantity<T> a, Quantity<T> b) {
  return a.value / b.value;
}

using Bytes = Quantity<struct BytesTag>;
using Flops = Quantity<struct FlopsTag>;                    // floating-point operations, a count
using BytesPerSecond = Quantity<struct BytesPerSecondTag>;  // decimal: 1 GB/s = 1e9 bytes/s
using FlopsPerSecond = Quantity<struct FlopsPerSecondTag>;
using Seconds = Quantity<struct SecondsTag>;  // unrounded; becomes a Time once

constexpr Seconds operator/(Bytes amount, BytesPerSecond rate) { return {amount.value / rate.value}; }
constexpr Seconds operator/(Flops amount, FlopsPerSecond rate) { return {amount.value / rate.value}; }
constexpr Bytes operator*(BytesPerSecond rate, Seconds t) { return {rate.value * t.value}; }
inline Time to_time(Seconds t) { return Time::from_seconds(t.value); }

inline constexpr double kGiga = 1e9;
inline constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;
inline constexpr double kMiB = 1024.0 * 1024.0;
inline constexpr double kMicro = 1e-6;

constexpr BytesPerSecond gigabytes_per_second(double x) { return {x * kGiga}; }
constexpr BytesPerSecond gigabits_per_second(double x) { return {x * kGiga / 8.0}; }
constexpr Seconds microseconds(double x) { return {x * kMicro}; }

}  // namespace foretrain
