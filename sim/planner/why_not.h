#pragma once

#include "sim/base/diagnostics.h"

namespace foretrain {

// Why there is no plan, in the first words that say it.
inline Message first_error(const Diagnostics& said) {
  for (const Diagnostic& d : said.all()) {
    if (d.severity == Severity::error || d.severity == Severity::unsupported) return d.message;
  }
  return message("no plan is legal");
}

}  // namespace foretrain
