#pragma once

#include <string>
#include <string_view>

#include "sim/base/diagnostics.h"

// Texts, as tests look at them.
namespace foretrain::testing {

inline bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

// Every diagnostic as the user sees it, one a line.
inline std::string shown(const Diagnostics& diagnostics) {
  std::string lines;
  for (const Diagnostic& d : diagnostics.all()) lines += to_string(d) + "\n";
  return lines;
}

}  // namespace foretrain::testing
