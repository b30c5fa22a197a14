#pragma once

#include <array>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/claims/check.h"
#include "sim/scenario/scenario.h"

namespace foretrain {

// A case that a claim is tested on. One that asks for something that is not simulated is kept, with the reasons.
struct ClaimCase {
  std::string name;
  std::optional<Case> subject;
  std::vector<std::string> refusals;
};

// What somebody says about training, as cases and checks of their figures.
struct Claim {
  std::string id, says;
  std::vector<std::string> evidence;  // public places that say or measured it
  std::string trust;                  // high | medium | low, of a report; empty if it is not said
  double tolerance = 0;               // share by which every range is widened
  std::vector<ClaimCase> cases;
  std::vector<Check> checks;
  std::vector<std::string> needs;  // features it cannot be judged without and that no scenario can ask for
  std::string out_of_scope;        // why no simulation of a training step can judge it; empty if one can
  SourcePosition position;
};

struct ClaimFile {
  std::string path, title;
  std::vector<Claim> claims;
};

// A file of claims:
//
//   title: TEXT
//   tolerance: 0.05                         # default of its claims; 0 if absent
//   base: {...}                             # default of all cases of the file, as in a scenario
//   claims:
//     - id: TEXT                            # unique in the file
//       claim: TEXT
//       evidence: [URL, ...]
//       base: {...}, cases: [{name, ...}]   # as in a scenario
//       checks: [{...}]                     # see Check; `of` names the cases
//       needs: [FEATURE, ...]               # or out_of_scope: WHY, in place of cases and checks
//
// nullopt if anything is wrong; a case that is only not simulated yet is not.
std::optional<ClaimFile> load_claims(const std::string& path, const DataFolder& data, Diagnostics& diagnostics);
std::optional<ClaimFile> read_claims(const config::Node& document, const DataFolder& data, Diagnostics& diagnostics);

// What the simulation makes of a claim.
enum class ClaimVerdict {
  confirmed,   // every check holds
  depends,     // some hold and some do not: the conditions of the checks say when
  wrong,       // none holds
  not_judged,  // it needs something that is not simulated
  out_of_scope,
};
inline constexpr std::array kClaimVerdicts = {ClaimVerdict::confirmed, ClaimVerdict::depends, ClaimVerdict::wrong,
                                              ClaimVerdict::not_judged, ClaimVerdict::out_of_scope};
const char* to_string(ClaimVerdict verdict);  // "confirmed", "depends", "wrong", "cannot be judged yet", "out of scope"

struct JudgedCheck {
  std::optional<CheckOutcome> outcome;  // absent if it cannot be judged
  std::vector<std::string> waits_for;   // then: the features that are missing
};
struct JudgedClaim {
  const Claim* claim = nullptr;
  ClaimVerdict verdict = ClaimVerdict::not_judged;
  std::vector<JudgedCheck> checks;     // as in the claim
  std::vector<std::string> waits_for;  // all features that are missing, each once
  std::string failure;                 // what our own code threw instead of an answer; empty if it answered
};

// Judges all claims of the files, which must outlive the result; simulates on up to `threads` threads. The verdict
// follows from the figures alone. A metric that does not exist and a case out of all proportion (std::overflow_error,
// std::domain_error, std::bad_alloc) are errors in `diagnostics`; what else `simulate` throws becomes the claim's
// failure.
using SimulateFigures = std::function<Figures(const Case&)>;
std::vector<JudgedClaim> judge_claims(std::span<const ClaimFile> files, const SimulateFigures& simulate, int threads,
                                      Diagnostics& diagnostics);

// Of a claim whose checks came out so: a mixture depends, whatever is still missing.
ClaimVerdict verdict_of(const std::vector<JudgedCheck>& checks);

}  // namespace foretrain
