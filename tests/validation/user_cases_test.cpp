// Reports of users: every check of user-cases.yaml is held, or listed with its reason as missed, or waits for a
// feature.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/report/claims_report.h"
#include "tests/support/claims.h"

using namespace foretrain;
using namespace foretrain::testing;

namespace {

std::string found_of(const JudgedCheck& judged) {
  if (!judged.outcome) return "waits_for: \"" + fmt::format("{}", fmt::join(judged.waits_for, ", ")) + "\"";
  return fmt::format("{} with {:.4g} (of cases: {:.4g})", judged.outcome->holds ? "holds" : "does not hold",
                     judged.outcome->figure, fmt::join(judged.outcome->of_cases, ", "));
}

// What the file should say of the check in place of what it says; empty if it is right.
std::string correction(const Check& check, const JudgedCheck& judged) {
  const std::string waits = fmt::format("{}", fmt::join(judged.waits_for, ", "));
  if (check.waits_for != waits) {
    return waits.empty() ? "it is simulated now: delete waits_for, and if it does not hold write missed with the reason"
                         : "write waits_for: \"" + waits + "\"";
  }
  if (!judged.outcome) return "";
  if (judged.outcome->holds && !check.missed.empty()) return "it holds now: delete missed";
  if (!judged.outcome->holds && check.missed.empty()) return "it does not hold: repair the simulation, or write missed";
  return "";
}

}  // namespace

TEST_CASE("reports of users are reproduced, or the file says why not") {
  const std::vector<ClaimFile> files = {claim_file(FORETRAIN_SOURCE_DIR "/tests/validation/user-cases.yaml")};
  std::size_t held = 0;
  for (const JudgedClaim& claim : simulated_claims(files)) {
    CAPTURE(claim.claim->id);
    CHECK(claim.failure.empty());
    CHECK_FALSE(claim.claim->evidence.empty());
    for (std::size_t i = 0; i < claim.checks.size(); ++i) {
      const Check& check = claim.claim->checks[i];
      const std::string wrong = correction(check, claim.checks[i]);
      CHECK_MESSAGE(wrong.empty(), to_string({Severity::note, check.position, report::description_of(check)})
                                       << ": " << found_of(claim.checks[i]) << "; " << wrong);
      held += claim.checks[i].outcome && claim.checks[i].outcome->holds;
    }
  }
  CHECK(held >= 48);  // raised as features land: most reports must be reproduced, not excused
}
