#include <doctest/doctest.h>

#include <limits>

#include "sim/base/units.h"

using namespace foretrain;

TEST_CASE("a duration is rounded once, to the nearest picosecond") {
  CHECK(Time::from_seconds(1.0).ps == 1'000'000'000'000);
  CHECK(Time::from_seconds(1.4e-12).ps == 1);
  CHECK(Time::from_microseconds(2.5).ps == 2'500'000);
  CHECK((Time{3} + Time{4} * 2).ps == 11);
}

TEST_CASE("impossible durations are faults, not values") {
  CHECK_THROWS(Time::from_seconds(-1.0));
  CHECK_THROWS(Time::from_seconds(std::numeric_limits<double>::quiet_NaN()));
  CHECK_THROWS(Time::from_seconds(1e12));
}

TEST_CASE("units are decimal and typed") {
  CHECK(gigabits_per_second(400).value == doctest::Approx(50e9));
  CHECK((Bytes{100e9} / gigabytes_per_second(50)).value == doctest::Approx(2.0));
}
