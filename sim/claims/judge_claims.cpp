#include <algorithm>
#include <exception>
#include <new>
#include <stdexcept>

#include "sim/base/parallel.h"
#include "sim/claims/claims.h"
#include "sim/config/quote.h"

namespace foretrain {
namespace {

struct Simulated {
  const ClaimCase* subject = nullptr;
  Figures figures;
  std::string failure;
  bool out_of_proportion = false;
};

void add_once(std::vector<std::string>& names, const std::string& name) {
  if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
}

JudgedCheck judge_check(const Check& check, const Claim& claim, std::span<const Simulated> cases,
                        Diagnostics& diagnostics) {
  JudgedCheck result;
  for (const std::string& feature : claim.needs) add_once(result.waits_for, feature);
  std::vector<const Figures*> figures;
  for (const std::string& name : check.cases) {
    const auto found =
        std::find_if(cases.begin(), cases.end(), [&](const Simulated& s) { return s.subject->name == name; });
    if (found == cases.end()) return result;
    for (const std::string& feature : found->subject->refusals) add_once(result.waits_for, feature);
    if (!found->failure.empty()) add_once(result.waits_for, found->failure);
    figures.push_back(&found->figures);
  }
  if (result.waits_for.empty()) result.outcome = evaluate(check, figures, claim.tolerance, diagnostics);
  return result;
}

JudgedClaim judge_claim(const Claim& claim, std::span<const Simulated> cases, Diagnostics& diagnostics) {
  JudgedClaim result;
  result.claim = &claim;
  for (const Simulated& s : cases) {
    if (!s.failure.empty()) result.failure = s.subject->name + ": " + s.failure;
  }
  for (const std::string& feature : claim.needs) add_once(result.waits_for, feature);
  for (const Check& check : claim.checks) {
    result.checks.push_back(judge_check(check, claim, cases, diagnostics));
    for (const std::string& feature : result.checks.back().waits_for) add_once(result.waits_for, feature);
  }
  result.verdict = !claim.out_of_scope.empty() ? ClaimVerdict::out_of_scope : verdict_of(result.checks);
  return result;
}

}  // namespace

const char* to_string(ClaimVerdict verdict) {
  switch (verdict) {
    case ClaimVerdict::confirmed:
      return "confirmed";
    case ClaimVerdict::depends:
      return "depends";
    case ClaimVerdict::wrong:
      return "wrong";
    case ClaimVerdict::not_judged:
      return "cannot be judged yet";
    case ClaimVerdict::out_of_scope:
      return "out of scope";
  }
  return "cannot be judged yet";
}

ClaimVerdict verdict_of(const std::vector<JudgedCheck>& checks) {
  std::size_t held = 0, failed = 0;
  for (const JudgedCheck& check : checks) {
    if (check.outcome) ++(check.outcome->holds ? held : failed);
  }
  if (held > 0 && failed > 0) return ClaimVerdict::depends;
  if (checks.empty() || held + failed < checks.size()) return ClaimVerdict::not_judged;
  return held > 0 ? ClaimVerdict::confirmed : ClaimVerdict::wrong;
}

std::vector<JudgedClaim> judge_claims(std::span<const ClaimFile> files, const SimulateFigures& simulate, int threads,
                                      Diagnostics& diagnostics) {
  std::vector<Simulated> simulated;
  for (const ClaimFile& file : files) {
    for (const Claim& claim : file.claims) {
      for (const ClaimCase& subject : claim.cases) simulated.push_back({&subject, {}, {}});
    }
  }
  parallel_for(simulated.size(), threads, [&](std::size_t i) {
    if (!simulated[i].subject->subject) return;
    try {
      simulated[i].figures = simulate(*simulated[i].subject->subject);
    } catch (const std::overflow_error&) {
      simulated[i].out_of_proportion = true;
    } catch (const std::domain_error&) {  // of a single duration
      simulated[i].out_of_proportion = true;
    } catch (const std::bad_alloc&) {
      simulated[i].out_of_proportion = true;
    } catch (const std::exception& e) {
      simulated[i].failure = *e.what() != '\0' ? e.what() : "unknown exception";
    }
  });
  for (const Simulated& s : simulated) {
    if (!s.out_of_proportion) continue;
    diagnostics.error(s.subject->subject->position,
                      message("{} cannot be simulated: its step has too many tasks, or takes more than 50 days",
                              config::in_quotes(s.subject->name)));
  }
  if (diagnostics.has_errors()) return {};
  std::vector<JudgedClaim> result;
  std::span<const Simulated> left = simulated;
  for (const ClaimFile& file : files) {
    for (const Claim& claim : file.claims) {
      result.push_back(judge_claim(claim, left.first(claim.cases.size()), diagnostics));
      left = left.subspan(claim.cases.size());
    }
  }
  return result;
}

}  // namespace foretrain
