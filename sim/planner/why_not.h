#pragma once

#include <optional>

#include "sim/base/diagnostics.h"

namespace foretrain {

// Why there is no plan, in the first words that say it.
inline Message first_error(const Diagnostics& said) {
  for (const Diagnostic& d : said.all()) {
    if (d.severity == Severity::error || d.severity == Severity::unsupported) return d.message;
  }
  return message("no plan is legal");
}

// The same of find_plans(), which first says that no plan is legal and then why.
inline Message why_no_plan(const Diagnostics& said) {
  std::optional<Message> reason;
  int errors = 0;
  for (const Diagnostic& d : said.all()) {
    if (d.severity != Severity::error && d.severity != Severity::unsupported) continue;
    reason = d.message;
    if (++errors == 2) break;
  }
  return reason.value_or(first_error(said));
}

}  // namespace foretrain
