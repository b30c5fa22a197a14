#pragma once

#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/diagnostics.h"
#include "sim/config/tree.h"

namespace foretrain::config::testing {

// Every diagnostic as the user sees it, one a line.
inline std::string shown(const Diagnostics& diagnostics) {
  std::string lines;
  for (const Diagnostic& d : diagnostics.all()) {
    if (!lines.empty()) lines += '\n';
    lines += to_string(d);
  }
  return lines;
}

inline Node parsed(std::string_view text) {
  Diagnostics diagnostics;
  std::optional<Node> node = parse_yaml(text, "t.yaml", diagnostics);
  INFO(shown(diagnostics));
  REQUIRE(node.has_value());
  CHECK(diagnostics.all().empty());
  return std::move(*node);
}

// The errors of a text that must not parse.
inline std::string errors_of(std::string_view text) {
  Diagnostics diagnostics;
  const bool parsed_anyway = parse_yaml(text, "t.yaml", diagnostics).has_value();
  CHECK_FALSE(parsed_anyway);
  CHECK(diagnostics.has_errors());
  return shown(diagnostics);
}

inline bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

}  // namespace foretrain::config::testing
