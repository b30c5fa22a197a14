#include <clocale>

#include "sim/config/reader.h"
#include "support.h"

namespace foretrain::config {
namespace {

using testing::contains;
using testing::parsed;
using testing::shown;

double value_of(std::string_view text, Unit unit) {
  Message why_not;
  const std::optional<double> value = parse_number(text, unit, why_not);
  CAPTURE(text);
  CHECK(why_not.empty());
  REQUIRE(value.has_value());
  return *value;
}

std::string refusal_of(std::string_view text, Unit unit) {
  Message why_not;
  CAPTURE(text);
  CHECK_FALSE(parse_number(text, unit, why_not).has_value());
  return why_not.english();
}

TEST_CASE("units") {
  struct Row {
    const char* text;
    Unit unit;
    double value;
  };
  const Row rows[] = {
      {"80", Unit::bytes, 80},
      {"80GB", Unit::bytes, 80e9},
      {"80 GB", Unit::bytes, 80e9},
      {"74.5GiB", Unit::bytes, 74.5 * 1073741824},
      {"16MiB", Unit::bytes, 16777216},
      {"4KiB", Unit::bytes, 4096},
      {"2TiB", Unit::bytes, 2 * 1099511627776.0},
      {"4kB", Unit::bytes, 4000},
      {"4KB", Unit::bytes, 4000},
      {"7B", Unit::bytes, 7},
      {"1.5MB", Unit::bytes, 1.5e6},
      {"80", Unit::gigabytes, 80e9},
      {"80GiB", Unit::gigabytes, 80 * 1073741824.0},
      {"900", Unit::bytes_rate, 900e9},
      {"900GB/s", Unit::bytes_rate, 900e9},
      {"3.35TB/s", Unit::bytes_rate, 3.35e12},
      {"500MB/s", Unit::bytes_rate, 500e6},
      {"1GiB/s", Unit::bytes_rate, 1073741824},
      {"200Gb/s", Unit::bytes_rate, 25e9},
      {"400", Unit::network_rate, 50e9},
      {"400Gb/s", Unit::network_rate, 50e9},
      {"400Gbit/s", Unit::network_rate, 50e9},
      {"400Gbps", Unit::network_rate, 50e9},
      {"400GB/s", Unit::network_rate, 400e9},
      {"50GBps", Unit::network_rate, 50e9},
      {"1.6Tb/s", Unit::network_rate, 200e9},
      {"100Mbps", Unit::network_rate, 12.5e6},
      {"989", Unit::teraflops, 989e12},
      {"989TFLOP/s", Unit::teraflops, 989e12},
      {"989TFLOPS", Unit::teraflops, 989e12},
      {"1.979PFLOP/s", Unit::teraflops, 1.979e15},
      {"500GFLOP/s", Unit::teraflops, 500e9},
      {"90", Unit::seconds, 90},
      {"90min", Unit::seconds, 5400},
      {"2h", Unit::seconds, 7200},
      {"3d12h", Unit::seconds, 302400},
      {"3d 12h", Unit::seconds, 302400},
      {"1h30min15s", Unit::seconds, 5415},
      {"1.5d", Unit::seconds, 129600},
      {"15us", Unit::seconds, 15e-6},
      {"15\xC2\xB5s", Unit::seconds, 15e-6},
      {"1.5ms", Unit::seconds, 1.5e-3},
      {"350ns", Unit::seconds, 350e-9},
      {"15", Unit::microseconds, 15e-6},
      {"2.9", Unit::microseconds, 2.9e-6},
      {"1.5ms", Unit::microseconds, 1.5e-3},
      {"7", Unit::milliseconds, 7e-3},
      {"7us", Unit::milliseconds, 7e-6},
      {"700", Unit::watts, 700},
      {"300W", Unit::watts, 300},
      {"10.2kW", Unit::watts, 10200},
      {"7", Unit::count, 7},
      {"16k", Unit::count, 16e3},
      {"350M", Unit::count, 350e6},
      {"7B", Unit::count, 7e9},
      {"7G", Unit::count, 7e9},
      {"1.5T", Unit::count, 1.5e12},
      {"-2.5", Unit::count, -2.5},
      {"+2.5", Unit::count, 2.5},
      {".5", Unit::count, 0.5},
      {"1e-3", Unit::count, 1e-3},
      {"1E9", Unit::count, 1e9},
      {" 5 ", Unit::count, 5},
  };
  for (const Row& row : rows) {
    CAPTURE(row.text);
    CHECK(value_of(row.text, row.unit) == doctest::Approx(row.value).epsilon(1e-15).scale(0));
  }
}

TEST_CASE("a whole figure with a unit is the double one would write") {
  CHECK(value_of("15us", Unit::seconds) == 15e-6);
  CHECK(value_of("15", Unit::microseconds) == 15e-6);
  CHECK(value_of("400Gb/s", Unit::network_rate) == 50e9);
  CHECK(value_of("80GB", Unit::bytes) == 80e9);
}

TEST_CASE("what is not a number of the unit") {
  for (const char* text : {"",      " ",      "four",  "-",   "+",        ".",     "+-5",   "-+5",  "--5",
                           "inf",   "-inf",   "nan",   "NaN", "infinity", "1_000", "1,000", "0x10", "1e",
                           "1e999", "1e-999", "1.2.3", "5 5", "5%",       "k",     "1 k k", "16K",  "16kk"}) {
    CHECK_FALSE(refusal_of(text, Unit::count).empty());
  }
  for (const char* text : {"80Gb", "80gb", "80G", "80GBs", "80GB/s", "GB", "80GGB", "80b", "1e308TB"}) {
    CHECK_FALSE(refusal_of(text, Unit::bytes).empty());
  }
  for (const char* text : {"900GB", "900G", "900gb/s", "900GB/h", "900/s"}) {
    CHECK_FALSE(refusal_of(text, Unit::bytes_rate).empty());
  }
  for (const char* text : {"12h3d", "3d3d", "3d12", "5m", "3d-12h", "d", "3dh", "1e308d", "3d1e308d", "us15"}) {
    CHECK_FALSE(refusal_of(text, Unit::seconds).empty());
  }
}

TEST_CASE("a wrong unit is answered with those that fit") {
  CHECK(refusal_of("80Gb", Unit::bytes) ==
        "'Gb' in '80Gb' is not a unit for a size in bytes; units that fit: B, kB, MB, GB, TB, PB, KiB, MiB, GiB, TiB");
  CHECK(contains(refusal_of("900GB", Unit::bytes_rate), "GB/s"));
  CHECK(contains(refusal_of("900GB", Unit::bytes_rate), "Gbit/s"));
  CHECK(contains(refusal_of("989GHz", Unit::teraflops), "TFLOP/s"));
  CHECK(contains(refusal_of("5m", Unit::seconds), "min"));
  CHECK(contains(refusal_of("5V", Unit::watts), "kW"));
  CHECK(contains(refusal_of("5x", Unit::count), "B (1e9)"));
}

TEST_CASE("whole numbers are exact or refused") {
  const Node root = parsed(
      "most: 9007199254740992\nbeyond: 9007199254740993\nleast: -9007199254740992\nhuge: 99999999999999999999999\n"
      "power: 1e16\nhalf: 0.5k\nunit: 5GB\nlong: " +
      std::string(5000, '9') + "\n");
  Diagnostics diagnostics;
  MapReader reader(root, diagnostics, "x");
  CHECK(reader.integer("most") == 9007199254740992);
  CHECK(reader.integer("least") == -9007199254740992);
  CHECK(reader.integer("half") == 500);
  CHECK(shown(diagnostics) == "");
  for (const char* key : {"beyond", "huge", "power", "unit", "long"}) {
    CAPTURE(key);
    CHECK_FALSE(reader.integer(key));
  }
  CHECK(diagnostics.error_count() == 5);
  CHECK(contains(diagnostics.all()[0].message.english(), "at most 2^53"));
}

TEST_CASE("booleans") {
  for (const char* text : {"true", "yes", "on", "True", "YES", "On"}) CHECK(parse_boolean(text) == true);
  for (const char* text : {"false", "no", "off", "False", "NO", "Off"}) CHECK(parse_boolean(text) == false);
  for (const char* text : {"", "1", "0", "y", "n", "t", "truee", " true"}) CHECK_FALSE(parse_boolean(text).has_value());
}

TEST_CASE("the locale changes nothing") {
  const std::string before = std::setlocale(LC_ALL, nullptr);
  for (const char* name : {"de_DE.UTF-8", "fr_FR.UTF-8", "C.UTF-8"}) {
    if (std::setlocale(LC_ALL, name) == nullptr) continue;
    CHECK(value_of("1.5", Unit::count) == 1.5);
    CHECK_FALSE(refusal_of("1,5", Unit::count).empty());
  }
  std::setlocale(LC_ALL, before.c_str());
}

}  // namespace
}  // namespace foretrain::config
