#pragma once

#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/config/reader.h"

namespace foretrain {

// What one case came to, by the names its figures have in the JSON of `run` ("step_time_s", "memory.parts.weights");
// yes and no are 1 and 0.
using Figures = std::map<std::string, double, std::less<>>;

// A statement about figures of named cases that either holds or does not. In YAML one of
//
//   {value: METRIC, of: CASE, range: [LOW, HIGH]}          the figure itself
//   {ratio: METRIC, of: [CASE, CASE], range: ...}          of the first case over that of the second
//   {delta: METRIC, of: [CASE, CASE], range: ...}          of the first case minus that of the second
//   {ascending: METRIC, of: [CASE, CASE, ...]}             from the smallest to the largest, without ties
//   {descending: METRIC, of: [CASE, CASE, ...]}
//   {fits: CASE} or {fits: [CASE, ...]}                    all of them fit into the GPU's memory
//   {oom: CASE}                                            none of them does
//
// with, in place of `range`, `at_least` or `at_most`; `per: METRIC` divides every figure by another of the same case
// first. METRIC is a figure or a sum of some ("memory.parts.weights + memory.parts.gradients"). Bounds take units;
// bare numbers are bytes, seconds or plain as the metric's name says, and GB/s for bytes per seconds.
struct Check {
  enum class Kind { value, ratio, delta, ascending, descending, fits, out_of_memory };
  Kind kind = Kind::value;
  std::string metric, per;         // `per` is empty where nothing divides
  std::vector<std::string> cases;  // as many as the kind needs, at least
  double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();
  std::string when;       // the condition it is made under, for people
  std::string missed;     // why it is known not to hold in the simulation, if it is
  std::string waits_for;  // the feature it is known to need, if any
  SourcePosition position;

  bool has_range() const { return kind == Kind::value || kind == Kind::ratio || kind == Kind::delta; }
};

// Reads one check. Everything wrong is reported, but whether cases and metrics exist is not known here.
std::optional<Check> read_check(const config::Node& node, Diagnostics& diagnostics);

// What a check came to.
struct CheckOutcome {
  bool holds = false;
  std::vector<double> of_cases;  // the metric of each case (of fits and oom: the share of the memory that is needed)
  double figure = 0;             // what is compared with the range; meaningless where there is none
};

// `tolerance` widens the range by that share of each bound. nullopt after reporting a metric that a case does not have.
std::optional<CheckOutcome> evaluate(const Check& check, const std::vector<const Figures*>& of_cases, double tolerance,
                                     Diagnostics& diagnostics);

// What a metric's figures are measured in, by its name.
config::Unit unit_of_metric(std::string_view metric);
// The unit of what the range bounds: that of the metric, but plain for ratios, a rate for bytes per seconds, and plain
// for figures per anything else.
config::Unit unit_of(const Check& check);

}  // namespace foretrain
