#include "sim/scenario/fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace foretrain {
namespace {

using config::Unit;
using Kind = Field::Kind;

std::string bound(double value) {
  return std::abs(value) < 1e7 && value == std::floor(value) ? fmt::format("{:.0f}", value)
                                                             : fmt::format("{:g}", value);
}

std::string_view unit_in_words(Unit unit) {
  switch (unit) {
    case Unit::count:
      return "a number";
    case Unit::bytes:
      return "bytes, or with a unit: 80GB, 74.5GiB";
    case Unit::gigabytes:
      return "GB, or with a unit: 80GB, 74.5GiB";
    case Unit::bytes_rate:
      return "GB/s, or with a unit: 900GB/s, 200Gb/s";
    case Unit::network_rate:
      return "Gbit/s, or with a unit: 200Gb/s, 25GB/s";
    case Unit::teraflops:
      return "TFLOP/s, or with a unit: 2PFLOPS";
    case Unit::seconds:
      return "seconds, or with a unit: 3d12h, 250ms";
    case Unit::microseconds:
      return "microseconds, or with a unit: 15us";
    case Unit::milliseconds:
      return "milliseconds, or with a unit: 250ms";
    case Unit::watts:
      return "W, or with a unit: 1.2kW";
  }
  return "";
}

// How a value that is no map of keys is written.
std::string single_values(const Field& field) {
  std::string words = fmt::format("{}", fmt::join(field.words, " | "));
  const bool open_above = std::isinf(field.range.max);
  switch (field.kind) {
    case Kind::map:
      return field.list ? "a list of maps" : "a map";
    case Kind::text:
      return field.list ? "a list of words" : "text";
    case Kind::boolean:
      return "true | false";
    case Kind::anything:
      return "anything";
    case Kind::choice:
      return words;
    case Kind::integer: {
      std::string range = open_above ? fmt::format("a whole number from {}", bound(field.range.min))
                                     : fmt::format("{} to {}", bound(field.range.min), bound(field.range.max));
      return words.empty() ? range : fmt::format("{} | {}", words, range);
    }
    case Kind::number:
      return std::string(unit_in_words(field.unit));
  }
  return "";
}

}  // namespace

std::string_view Field::key() const { return path.substr(path.find_last_of('.') + 1); }

std::string_view Field::parent() const {
  const std::size_t dot = path.find_last_of('.');
  return dot == std::string_view::npos ? std::string_view{} : path.substr(0, dot);
}

std::vector<const Field*> keys_of(std::string_view path, Field::Place place) {
  std::vector<const Field*> keys;
  for (const Field& field : scenario_fields()) {
    const std::string_view parent = field.parent();
    const bool item = parent.ends_with("[]") && parent.substr(0, parent.size() - 2) == path;
    if (field.place == place && (parent == path || item)) keys.push_back(&field);
  }
  return keys;
}

const Field* find_field(std::string_view path) {
  const std::vector<Field>& all = scenario_fields();
  const auto found = std::find_if(all.begin(), all.end(), [&](const Field& field) { return field.path == path; });
  return found == all.end() ? nullptr : &*found;
}

std::string values_in_words(const Field& field) {
  const bool also_a_map = field.kind != Kind::map && !keys_of(field.path, field.place).empty();
  if (field.by_gpu) return single_values(field) + " | a list for every dp rank | a map by GPU";
  return also_a_map ? single_values(field) + " | a map" : single_values(field);
}

}  // namespace foretrain
