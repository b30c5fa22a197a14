#include "sim/base/random.h"

#include <doctest/doctest.h>

using namespace foretrain;

TEST_CASE("bits are those of SplitMix64") {
  // The first outputs of the published generator from the states 0 and 1234567.
  CHECK(mix_bits(0) == 0xe220a8397b1dcdafULL);
  CHECK(mix_bits(1234567) == 6457827717110365317ULL);
}

TEST_CASE("random numbers are spread as they should be, and depend on seed and place alone") {
  double sum = 0, squares = 0, within = 0;
  constexpr int kMany = 100000;
  for (std::uint64_t i = 0; i < kMany; ++i) {
    const double u = uniform_at(7, i), z = normal_at(7, i);
    CHECK((u > 0.0 && u < 1.0));
    sum += z;
    squares += z * z;
    within += z > -1.0 && z < 1.0;
  }
  CHECK(std::abs(sum / kMany) < 4 / std::sqrt(kMany));
  CHECK(squares / kMany == doctest::Approx(1.0).epsilon(0.02));
  CHECK(within / kMany == doctest::Approx(0.6827).epsilon(0.01));
  CHECK(normal_at(7, 3) == normal_at(7, 3));
  CHECK(normal_at(7, 3) != normal_at(8, 3));
  CHECK(normal_at(7, 3) != normal_at(7, 4));
}
