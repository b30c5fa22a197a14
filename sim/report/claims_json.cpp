#include <cmath>

#include "sim/report/claims_report.h"
#include "sim/report/json_support.h"

namespace foretrain::report {
namespace {

Json finite_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

const char* kind_of(Check::Kind kind) {
  switch (kind) {
    case Check::Kind::value:
      return "value";
    case Check::Kind::ratio:
      return "ratio";
    case Check::Kind::delta:
      return "delta";
    case Check::Kind::ascending:
      return "ascending";
    case Check::Kind::descending:
      return "descending";
    case Check::Kind::fits:
      return "fits";
    case Check::Kind::out_of_memory:
      return "oom";
  }
  return "value";
}

Json check_json(const Check& check, const JudgedCheck& judged) {
  Json json{{"kind", kind_of(check.kind)},
            {"metric", or_null(check.metric)},
            {"per", or_null(check.per)},
            {"of", check.cases},
            {"when", or_null(check.when)}};
  json["range"] = check.has_range() ? Json{finite_or_null(check.low), finite_or_null(check.high)} : Json(nullptr);
  const bool bounded = judged.outcome && check.has_range();
  json["figure"] = bounded ? finite_or_null(judged.outcome->figure) : Json(nullptr);
  json["of_cases"] = judged.outcome ? Json(judged.outcome->of_cases) : Json(nullptr);
  json["holds"] = judged.outcome ? Json(judged.outcome->holds) : Json(nullptr);
  json["missed"] = or_null(check.missed);
  json["waits_for"] = judged.waits_for;
  return json;
}

Json claim_json(const JudgedClaim& judged) {
  Json json{{"id", judged.claim->id},
            {"claim", judged.claim->says},
            {"verdict", to_string(judged.verdict)},
            {"because", or_null(because_of(judged).english())},
            {"tolerance", judged.claim->tolerance},
            {"waits_for", judged.waits_for},
            {"evidence", judged.claim->evidence},
            {"checks", Json::array()}};
  for (std::size_t i = 0; i < judged.checks.size(); ++i) {
    json["checks"].push_back(check_json(judged.claim->checks[i], judged.checks[i]));
  }
  return json;
}

}  // namespace

std::string claims_json(std::span<const JudgedClaim> claims) {
  Json summary{{"claims", claims.size()}};
  for (const ClaimVerdict verdict : kClaimVerdicts) summary[to_string(verdict)] = 0;
  Json json{{"schema", 1}, {"claims", Json::array()}};
  for (const JudgedClaim& claim : claims) {
    json["claims"].push_back(claim_json(claim));
    Json& count = summary[to_string(claim.verdict)];
    count = count.get<int>() + 1;
  }
  json["summary"] = std::move(summary);
  return dumped(json);
}

}  // namespace foretrain::report
