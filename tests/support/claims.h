#pragma once

#include <doctest/doctest.h>

#include "sim/base/parallel.h"
#include "sim/claims/claims.h"
#include "sim/report/case_figures.h"
#include "tests/support/cases.h"

namespace foretrain::testing {

inline ClaimFile claim_file(const std::string& path) {
  Diagnostics diagnostics;
  auto file = load_claims(path, data_folder(), diagnostics);
  if (!file) throw std::runtime_error(to_string(diagnostics.all().front()));
  CHECK(diagnostics.all().empty());
  return *file;
}

// All claims of the files, simulated. The files must outlive the result.
inline std::vector<JudgedClaim> simulated_claims(const std::vector<ClaimFile>& files) {
  Diagnostics diagnostics;
  auto claims = judge_claims(
      files, [](const Case& c) { return report::case_figures(simulate_plainly(c)); }, default_threads(), diagnostics);
  for (const Diagnostic& d : diagnostics.all()) FAIL_CHECK(to_string(d));
  return claims;
}

}  // namespace foretrain::testing
