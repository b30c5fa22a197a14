// Numbers with units.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <span>

#include "sim/config/quote.h"
#include "sim/config/reader.h"

namespace foretrain::config {
namespace {

// value * multiply / divide. Divided where the factor itself has no exact double: 15us is 15 / 1e6, the double
// nearest to 15e-6, where 15 * 1e-6 is not.
struct Scale {
  double multiply = 1.0;
  double divide = 1.0;
};

struct NamedScale {
  std::string_view name;
  Scale scale;
};

// How a unit is written: what a bare number means, and its words for messages.
struct UnitWords {
  Scale bare;
  std::string_view noun;      // "a size in bytes"
  std::string_view suffixes;  // those that fit
};

constexpr double kKibi = 1024.0;
constexpr std::string_view kRates = "GB/s, MB/s, TB/s, GiB/s (bytes), Gb/s, Gbit/s, Gbps (bits)";
constexpr std::string_view kSizes = "B, kB, MB, GB, TB, PB, KiB, MiB, GiB, TiB";
constexpr std::string_view kDurations = "d, h, min, s, ms, us, ns";

UnitWords words_of(Unit unit) {
  switch (unit) {
    case Unit::count:
      return {{}, "a number", "k (1e3), M, G, B (1e9), T"};
    case Unit::bytes:
      return {{}, "a size in bytes", kSizes};
    case Unit::gigabytes:
      return {{1e9, 1}, "a size in bytes", kSizes};
    case Unit::bytes_rate:
      return {{1e9, 1}, "a bandwidth", kRates};
    case Unit::network_rate:
      return {{1e9, 8}, "a bandwidth", kRates};
    case Unit::teraflops:
      return {{1e12, 1}, "a compute rate", "FLOP/s, GFLOP/s, TFLOP/s, PFLOP/s, TFLOPS, PFLOPS"};
    case Unit::seconds:
      return {{}, "a duration", kDurations};
    case Unit::microseconds:
      return {{1, 1e6}, "a duration", kDurations};
    case Unit::milliseconds:
      return {{1, 1e3}, "a duration", kDurations};
    case Unit::watts:
      return {{}, "a power", "W, kW, MW"};
  }
  return {};
}

std::optional<Scale> find_scale(std::span<const NamedScale> table, std::string_view name) {
  const auto found = std::find_if(table.begin(), table.end(), [&](const NamedScale& s) { return s.name == name; });
  if (found == table.end()) return std::nullopt;
  return found->scale;
}

// SI prefixes, and IEC 80000-13 ones for powers of two; "K" is taken for "k" (kelvin is never meant here).
constexpr std::array<NamedScale, 12> kPrefixes{{{"", {}},
                                                {"k", {1e3, 1}},
                                                {"K", {1e3, 1}},
                                                {"M", {1e6, 1}},
                                                {"G", {1e9, 1}},
                                                {"T", {1e12, 1}},
                                                {"P", {1e15, 1}},
                                                {"E", {1e18, 1}},
                                                {"Ki", {kKibi, 1}},
                                                {"Mi", {kKibi * kKibi, 1}},
                                                {"Gi", {kKibi * kKibi * kKibi, 1}},
                                                {"Ti", {kKibi * kKibi * kKibi * kKibi, 1}}}};
constexpr std::array<NamedScale, 5> kCounts{
    {{"k", {1e3, 1}}, {"M", {1e6, 1}}, {"G", {1e9, 1}}, {"B", {1e9, 1}}, {"T", {1e12, 1}}}};
constexpr std::array<NamedScale, 1> kByteUnits{{{"B", {}}}};
constexpr std::array<NamedScale, 5> kRateUnits{
    {{"B/s", {}}, {"Bps", {}}, {"b/s", {1, 8}}, {"bit/s", {1, 8}}, {"bps", {1, 8}}}};
constexpr std::array<NamedScale, 2> kFlopUnits{{{"FLOP/s", {}}, {"FLOPS", {}}}};
constexpr std::array<NamedScale, 3> kWattUnits{{{"W", {}}, {"kW", {1e3, 1}}, {"MW", {1e6, 1}}}};
// Longest first, as they follow one another in "3d12h".
constexpr std::array<NamedScale, 9> kTimes{{{"d", {86400, 1}},
                                            {"h", {3600, 1}},
                                            {"min", {60, 1}},
                                            {"s", {}},
                                            {"ms", {1, 1e3}},
                                            {"us", {1, 1e6}},
                                            {"\xC2\xB5s", {1, 1e6}},  // micro sign
                                            {"\xCE\xBCs", {1, 1e6}},  // Greek mu
                                            {"ns", {1, 1e9}}}};

// "GB/s" as prefix "G" and unit "B/s".
std::optional<Scale> prefixed(std::string_view suffix, std::span<const NamedScale> units) {
  for (const NamedScale& unit : units) {
    if (!suffix.ends_with(unit.name)) continue;
    const std::optional<Scale> prefix = find_scale(kPrefixes, suffix.substr(0, suffix.size() - unit.name.size()));
    if (prefix) return Scale{prefix->multiply * unit.scale.multiply, prefix->divide * unit.scale.divide};
  }
  return std::nullopt;
}

bool is_duration(Unit unit) {
  return unit == Unit::seconds || unit == Unit::microseconds || unit == Unit::milliseconds;
}

std::optional<Scale> scale_of(std::string_view suffix, Unit unit) {
  switch (unit) {
    case Unit::count:
      return find_scale(kCounts, suffix);
    case Unit::bytes:
    case Unit::gigabytes:
      return prefixed(suffix, kByteUnits);
    case Unit::bytes_rate:
    case Unit::network_rate:
      return prefixed(suffix, kRateUnits);
    case Unit::teraflops:
      return prefixed(suffix, kFlopUnits);
    case Unit::watts:
      return find_scale(kWattUnits, suffix);
    case Unit::seconds:
    case Unit::microseconds:
    case Unit::milliseconds:
      return find_scale(kTimes, suffix);
  }
  return std::nullopt;
}

std::string_view trimmed(std::string_view text) {
  const auto is_space = [](char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

enum class Figure { good, none, too_large };

// Takes a decimal figure off the front of `rest`. from_chars knows no locale, but takes "inf" and "nan".
Figure take_figure(std::string_view& rest, double& value) {
  std::string_view digits = rest;
  if (digits.starts_with('+')) digits.remove_prefix(1);
  const std::string_view unsigned_digits =
      digits.starts_with('-') && digits.size() == rest.size() ? digits.substr(1) : digits;
  const bool numeric = !unsigned_digits.empty() &&
                       (is_digit(unsigned_digits[0]) ||
                        (unsigned_digits.size() > 1 && unsigned_digits[0] == '.' && is_digit(unsigned_digits[1])));
  if (!numeric) return Figure::none;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error == std::errc::result_out_of_range) return Figure::too_large;
  if (error != std::errc{}) return Figure::none;
  rest = digits.substr(static_cast<std::size_t>(end - digits.data()));
  return Figure::good;
}

// "3d12h": figures with units, longest unit first.
std::optional<double> parse_compound_duration(std::string_view rest) {
  double total = 0.0;
  std::size_t next = 0;  // first unit of kTimes that may follow
  while (!rest.empty()) {
    if (!is_digit(rest[0])) return std::nullopt;
    double figure = 0.0;
    if (take_figure(rest, figure) != Figure::good) return std::nullopt;
    const auto is_letter = [](char c) { return !is_digit(c) && c != ' ' && c != '.'; };
    const auto suffix_end = std::find_if_not(rest.begin(), rest.end(), is_letter);
    const std::string_view suffix = rest.substr(0, static_cast<std::size_t>(suffix_end - rest.begin()));
    const auto found = std::find_if(kTimes.begin() + static_cast<std::ptrdiff_t>(next), kTimes.end(),
                                    [&](const NamedScale& s) { return s.name == suffix; });
    if (found == kTimes.end()) return std::nullopt;
    next = static_cast<std::size_t>(found - kTimes.begin()) + 1;
    total += figure * found->scale.multiply / found->scale.divide;
    rest = trimmed(rest.substr(suffix.size()));
  }
  return total;
}

// Why `suffix` does not fit, with the mix-up named where it is a usual one.
Message wrong_unit(std::string_view text, std::string_view suffix, Unit unit) {
  const UnitWords words = words_of(unit);
  if (suffix[0] == '_' || suffix[0] == ',') {
    return message("{} is not a number; write the digits without '{}'", in_quotes(text), suffix[0]);
  }
  return message("{} in {} is not a unit for {}; units that fit: {}", in_quotes(suffix), in_quotes(text),
                 quoted_words(words.noun), words.suffixes);
}

}  // namespace

std::optional<double> parse_number(std::string_view text, Unit unit, Message& why_not) {
  std::string_view rest = trimmed(text);
  double figure = 0.0;
  const Figure outcome = take_figure(rest, figure);
  if (outcome == Figure::none) {
    why_not = message("{} is not {}", in_quotes(text), quoted_words(words_of(unit).noun));
    return std::nullopt;
  }
  if (outcome == Figure::too_large) {
    why_not = message("{} is too large or too small a number", in_quotes(text));
    return std::nullopt;
  }
  const std::string_view suffix = trimmed(rest);
  const std::optional<Scale> scale = suffix.empty() ? words_of(unit).bare : scale_of(suffix, unit);
  if (!scale && is_duration(unit)) {
    if (const std::optional<double> total = parse_compound_duration(trimmed(text)); total && std::isfinite(*total)) {
      return total;
    }
  }
  if (!scale) {
    why_not = wrong_unit(text, suffix, unit);
    return std::nullopt;
  }
  const double value = figure * scale->multiply / scale->divide;
  if (!std::isfinite(value)) {
    why_not = message("{} is too large a number", in_quotes(text));
    return std::nullopt;
  }
  return value;
}

std::optional<bool> parse_boolean(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  if (lower == "true" || lower == "yes" || lower == "on") return true;
  if (lower == "false" || lower == "no" || lower == "off") return false;
  return std::nullopt;
}

}  // namespace foretrain::config
