#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

// Random numbers by place instead of in sequence: each is a pure function of a seed and an index, so that neither the
// order of calls nor the standard library decides what comes out.
namespace foretrain {

// The finaliser of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014).
constexpr std::uint64_t mix_bits(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// Uniform in (0, 1), never an end.
constexpr double uniform_at(std::uint64_t seed, std::uint64_t index) {
  return (static_cast<double>(mix_bits(mix_bits(seed) ^ index) >> 11) + 0.5) * 0x1p-53;
}

// Standard normal (Box and Muller).
inline double normal_at(std::uint64_t seed, std::uint64_t index) {
  const double radius = std::sqrt(-2.0 * std::log(uniform_at(seed, 2 * index)));
  return radius * std::cos(2.0 * std::numbers::pi * uniform_at(seed, 2 * index + 1));
}

}  // namespace foretrain
