#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/diagnostics.h"
#include "sim/base/units.h"
#include "sim/config/tree.h"

namespace foretrain::config {

// What a bare number means and which unit suffixes a value may carry ("80GB", "74.5GiB", "900GB/s", "200Gb/s",
// "3d12h", "15us", "300W", "16k", "1.5T"). Values are returned in the base unit named here.
enum class Unit {
  count,         // plain number; suffixes k, M, G, B (= 1e9), T
  bytes,         // bare = bytes
  gigabytes,     // bare = 1e9 bytes            -> bytes
  bytes_rate,    // bare = GB/s                 -> bytes per second
  network_rate,  // bare = Gbit/s               -> bytes per second
  teraflops,     // bare = TFLOP/s              -> FLOP/s
  seconds,       // bare = seconds              -> seconds
  microseconds,  // bare = microseconds         -> seconds
  milliseconds,  // bare = milliseconds         -> seconds
  watts,
};

struct Range {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
};

// Reads a map with known keys. Every get_* names a key, checks type, unit and range, and reports what is wrong with
// the position of the value; finish() reports the keys nobody asked for, with a suggestion.
//
//   MapReader plan(node, diagnostics, "plan");
//   result.tp = plan.integer("tp", {1, 65536}).value_or(1);
//   plan.finish();
class MapReader {
 public:
  // Reports an error if `node` is neither a map nor null; both then read as an empty map ("plan:" with every key
  // commented out is an empty plan). `what` names it in messages ("plan" gives "plan.tp").
  // The node must outlive the reader.
  MapReader(const Node& node, Diagnostics& diagnostics, std::string what);

  bool has(std::string_view key);                          // also marks the key as known
  const Node* node(std::string_view key);                  // any value, or nullptr if absent; marks the key as known
  const Node& child(std::string_view key);                 // the same; an empty node if absent
  SourcePosition position() const;                         // of the map itself
  SourcePosition position_of(std::string_view key) const;  // of a key's value; of the map if absent

  // nullopt if the key is absent, null, or wrong (wrong was reported). A value in quotes is text, never a number or
  // boolean. integer() takes whole numbers up to 2^53, also as "1e9" and "16k". Ranges are inclusive and in the
  // base unit of the value.
  std::optional<std::string> text(std::string_view key);
  std::optional<bool> boolean(std::string_view key);
  std::optional<std::int64_t> integer(std::string_view key, Range range = {});
  std::optional<double> number(std::string_view key, Unit unit = Unit::count, Range range = {});
  // A list; a single value reads as a list of one. One wrong item makes the whole list wrong; all are reported.
  std::optional<std::vector<std::string>> text_list(std::string_view key);
  std::optional<std::vector<double>> number_list(std::string_view key, Unit unit = Unit::count, Range range = {});
  // One of `allowed`, as its index; anything else is an error that lists them and suggests.
  std::optional<std::size_t> choice(std::string_view key, const std::vector<std::string>& allowed);

  // The same, but absence (or null) is an error; after an error a placeholder comes back: "" or the value in range
  // that is nearest to 1.
  std::string required_text(std::string_view key);
  std::int64_t required_integer(std::string_view key, Range range = {});
  double required_number(std::string_view key, Unit unit = Unit::count, Range range = {});

  void error(std::string_view key, Message message);  // at the key's value
  void finish();                                      // errors for unknown keys

 private:
  std::string path_of(std::string_view key) const;
  const Node* value_of(std::string_view key);  // nullptr if absent or null
  const std::string* scalar_of(std::string_view key, const Node& value, const Message& wanted, bool quotes_allowed);
  std::optional<double> number_of(std::string_view key, const Node& value, Unit unit, Range range);
  void report_range(std::string_view key, const Node& value, const Message& rule);
  bool report_missing(std::string_view key);

  const Node* node_;
  Diagnostics& diagnostics_;
  std::string what_;
  std::vector<std::string> known_;
};

// The scalar readers behind MapReader, for lists and flags.
//
// Decimal figures with an optional exponent, then an optional unit that fits (spaces allowed between). No locale, no
// digit separators, no inf or nan. The case of units counts: Gb/s is bits, GB/s bytes. nullopt sets `why_not` to the
// message ("'four' is not a number").
std::optional<double> parse_number(std::string_view text, Unit unit, Message& why_not);
// true, yes, on; false, no, off; in any case.
std::optional<bool> parse_boolean(std::string_view text);

}  // namespace foretrain::config
