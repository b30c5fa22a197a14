#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/report/claims_report.h"
#include "sim/report/figures.h"

namespace foretrain::report {
namespace {

Message condition_of(const Check& check, const Words& words) {
  return check.when.empty() ? description_of(check) : Message(words.text(check.when));
}

// Names of cases.
std::string named(const std::vector<std::string>& names, const char* between) {
  return fmt::format("{}", fmt::join(names, between));
}

std::vector<Message> names_of(const Check& check) { return {check.cases.begin(), check.cases.end()}; }

}  // namespace

std::string figure_text(double value, config::Unit unit) {
  if (unit == config::Unit::bytes) return significant(value / kGiga, 3) + " GB";
  if (unit == config::Unit::bytes_rate) return significant(value / kGiga, 3) + " GB/s";
  if (unit == config::Unit::seconds) return significant(value, 3) + " s";
  return std::abs(value) >= 1000 ? grouped(value) : significant(value, 3);
}

Message description_of(const Check& check) {
  const Message metric = check.per.empty() ? Message(check.metric) : message("{} per {}", check.metric, check.per);
  switch (check.kind) {
    case Check::Kind::value:
      return message("{} of {}", metric, check.cases[0]);
    case Check::Kind::ratio:
      return message("{}, {} over {}", metric, check.cases[0], check.cases[1]);
    case Check::Kind::delta:
      return message("{}, {} minus {}", metric, check.cases[0], check.cases[1]);
    case Check::Kind::ascending:
      return message("{}: {}", metric, named(check.cases, " < "));
    case Check::Kind::descending:
      return message("{}: {}", metric, named(check.cases, " > "));
    case Check::Kind::fits:
      return message("{} fits", joined(names_of(check), message(" and ")));
    case Check::Kind::out_of_memory:
      return message("{} does not fit", joined(names_of(check), message(" or ")));
  }
  return metric;
}

Message because_of(const JudgedClaim& claim, const Words& words) {
  if (claim.verdict == ClaimVerdict::out_of_scope) return words.text(claim.claim->out_of_scope);
  std::vector<Message> held, failed;
  for (std::size_t i = 0; i < claim.checks.size(); ++i) {
    if (!claim.checks[i].outcome) continue;
    (claim.checks[i].outcome->holds ? held : failed).push_back(condition_of(claim.claim->checks[i], words));
  }
  Message said;
  if (claim.verdict == ClaimVerdict::depends) {
    said = message("holds: {}. Does not: {}", joined(held, message("; ")), joined(failed, message("; ")));
  }
  const auto held_so_far = std::count_if(claim.checks.begin(), claim.checks.end(),
                                         [](const JudgedCheck& c) { return c.outcome && c.outcome->holds; });
  if (claim.verdict == ClaimVerdict::not_judged && held_so_far > 0) {
    said = message("{} of {} checks hold so far", held_so_far, claim.checks.size());
  }
  if (!claim.waits_for.empty()) {
    const Message waits = message("not simulated yet: {}", named(claim.waits_for, ", "));
    said = said.empty() ? waits : message("{}. {}", said, waits);
  }
  return said;
}

}  // namespace foretrain::report
