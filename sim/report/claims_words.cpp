#include <fmt/format.h>

#include <cmath>

#include <algorithm>

#include "sim/report/claims_report.h"
#include "sim/report/figures.h"

namespace foretrain::report {
namespace {

std::string condition_of(const Check& check) { return check.when.empty() ? description_of(check) : check.when; }

std::string joined(const std::vector<std::string>& names, const char* between) {
  return fmt::format("{}", fmt::join(names, between));
}

}  // namespace

std::string figure_text(double value, config::Unit unit) {
  if (unit == config::Unit::bytes) return significant(value / kGiga, 3) + " GB";
  if (unit == config::Unit::bytes_rate) return significant(value / kGiga, 3) + " GB/s";
  if (unit == config::Unit::seconds) return significant(value, 3) + " s";
  return std::abs(value) >= 1000 ? grouped(value) : significant(value, 3);
}

std::string description_of(const Check& check) {
  const std::string metric = check.per.empty() ? check.metric : check.metric + " per " + check.per;
  switch (check.kind) {
    case Check::Kind::value:
      return fmt::format("{} of {}", metric, check.cases[0]);
    case Check::Kind::ratio:
      return fmt::format("{}, {} over {}", metric, check.cases[0], check.cases[1]);
    case Check::Kind::delta:
      return fmt::format("{}, {} minus {}", metric, check.cases[0], check.cases[1]);
    case Check::Kind::ascending:
      return fmt::format("{}: {}", metric, joined(check.cases, " < "));
    case Check::Kind::descending:
      return fmt::format("{}: {}", metric, joined(check.cases, " > "));
    case Check::Kind::fits:
      return fmt::format("{} fits", joined(check.cases, " and "));
    case Check::Kind::out_of_memory:
      return fmt::format("{} does not fit", joined(check.cases, " or "));
  }
  return metric;
}

std::string because_of(const JudgedClaim& claim) {
  if (claim.verdict == ClaimVerdict::out_of_scope) return claim.claim->out_of_scope;
  std::string held, failed;
  for (std::size_t i = 0; i < claim.checks.size(); ++i) {
    if (!claim.checks[i].outcome) continue;
    std::string& conditions = claim.checks[i].outcome->holds ? held : failed;
    conditions += (conditions.empty() ? "" : "; ") + condition_of(claim.claim->checks[i]);
  }
  std::string text;
  if (claim.verdict == ClaimVerdict::depends) text = fmt::format("holds: {}. Does not: {}", held, failed);
  const auto held_so_far = std::count_if(claim.checks.begin(), claim.checks.end(),
                                         [](const JudgedCheck& c) { return c.outcome && c.outcome->holds; });
  if (claim.verdict == ClaimVerdict::not_judged && held_so_far > 0) {
    text = fmt::format("{} of {} checks hold so far", held_so_far, claim.checks.size());
  }
  if (!claim.waits_for.empty()) {
    text += fmt::format("{}not simulated yet: {}", text.empty() ? "" : ". ", joined(claim.waits_for, ", "));
  }
  return text;
}

}  // namespace foretrain::report
