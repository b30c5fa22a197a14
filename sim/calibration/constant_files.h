#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/config/tree.h"

namespace foretrain {

// What measurements say of one constant of hardware/calibrated/{collectives,hosts,links}.yaml.
struct ConstantFit {
  std::string name;                  // file, sections and key: "collectives.bandwidth_protocol.base"
  double fitted = 0.0;               // in the unit of the file
  std::size_t points = 0;            // measurements that feel it
  std::vector<std::string> systems;  // kinds of machine, or sources, that they were taken on
  bool at_bound = false;             // the measurements would have gone further than is physical
  std::string detail;                // how good the fit is, if more than the number of points is to be said
};

// One constant as the rules have it.
struct ConstantRule {
  std::string name;
  double value = 0.0;           // given: where a study or a public source puts it
  bool take_fit = false;        // the measurements decide it; else they are shown beside it
  double min = 0.0, max = 0.0;  // physical bounds of a fit
};

// hardware/measurements/constants.yaml: for each file its sections and constants, in the form and order of the file. A
// constant is {value, take: fit | value (default), min, max, note}; what is not such a map is copied. `about` becomes a
// comment.
struct ConstantRules {
  config::Node tree;
  std::vector<ConstantRule> rules;  // in the order of the files

  const ConstantRule* find(std::string_view name) const;
  std::vector<std::string> files() const;  // "collectives", "hosts", "links"
};

// nullopt after reporting what is wrong.
std::optional<ConstantRules> load_constant_rules(const std::string& path, Diagnostics& diagnostics);

// The text of hardware/calibrated/<file>.yaml: constants of `fits` that the rules leave to measurements (and that some
// feel) with three digits, all others as given, each with a word on where it comes from. `notes` are lines of its
// heading. Always the same for the same input.
std::string constant_file_text(const ConstantRules& rules, std::string_view file, std::span<const ConstantFit> fits,
                               std::span<const std::string> notes);

// The file with every constant as given, ready for its reader: what the fits start from.
config::Node given_constants(const ConstantRules& rules, std::string_view file, Diagnostics& diagnostics);

}  // namespace foretrain
