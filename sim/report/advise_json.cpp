#include <cmath>

#include "sim/report/advise_report.h"
#include "sim/report/describe.h"
#include "sim/report/figures.h"
#include "sim/report/json_support.h"
#include "sim/report/rent_report.h"

namespace foretrain::report {
namespace {

Json outcome_json(const Outcome& o) {
  return {{"step_time_s", exact_seconds(o.step_time)},
          {"tokens_per_s", o.tokens_per_second},
          {"gpu_peak_bytes", std::llround(o.needed.value)},
          {"fits", o.fits}};
}

Json answer_json(const Advice::Answer* answer) {
  if (answer == nullptr) return nullptr;
  Json json = outcome_json(answer->outcome);
  json["job_s"] = or_null(answer->seconds);
  json["plan"] = plan_json(answer->subject);
  return json;
}

Json size_json(const Advice::Size& size) {
  Json free = Json::array();
  for (const Advice::Free& f : size.free) {
    free.push_back({{"change", f.name},
                    {"what", f.what.english()},
                    {"same_plan", outcome_json(f.same_plan)},
                    {"best_plan", f.best_plan ? outcome_json(*f.best_plan) : Json(nullptr)}});
  }
  return {{"gpus", size.gpus},
          {"as_described", answer_json(size.best ? &*size.best : nullptr)},
          {"missing_bytes", std::llround(size.missing.value)},
          {"changes", english(size.changes)},
          {"with_changes", answer_json(size.changed ? &*size.changed : nullptr)},
          {"why_not", or_null(size.why_not.english())},
          {"free", std::move(free)},
          {"helpful", english(size.helpful)},
          {"together", answer_json(size.together ? &*size.together : nullptr)}};
}

Json advice_json(const Advice& a) {
  Json sizes = Json::array();
  for (const Advice::Size& size : a.sizes) sizes.push_back(size_json(size));
  return {{"name", a.name},
          {"advice", advice_in_words(a).english()},
          {"gpus", a.recommended ? Json(a.sizes[*a.recommended].gpus) : Json(nullptr)},
          {"meets_deadline", a.meets_deadline},
          {"complete", a.complete},
          {"sizes", std::move(sizes)}};
}

// What stands in the same places where a machine is named.
Json head_of(const OfferedAdvice& a) {
  const auto best = a.answer.best;
  return {{"advice", advice_in_words(a).english()},
          {"gpus", best ? Json(a.answer.candidates[*best].gpus) : Json(nullptr)},
          {"meets_deadline", best.has_value()},
          {"complete", a.answer.complete}};
}

Json offered_json(const OfferedAdvice& a) {
  Json steps = Json::array();
  for (const OfferedAdvice::Step& step : a.steps) {
    steps.push_back({{"kind", kind_in_words(step.kind).english()},
                     {"candidate", or_null(step.cheapest)},
                     {"why_not", step.cheapest ? Json(nullptr) : Json(step.why_not.english())}});
  }
  return {{"advice", advice_in_words(a).english()},
          {"steps", std::move(steps)},
          {"free", a.free ? size_json(*a.free) : Json(nullptr)},
          {"rent", Json::parse(rent_json(a.question, a.answer))}};
}

}  // namespace

std::string advice_json(const std::string& title, std::span<const AdvisedCase> cases) {
  Json json{{"schema", 1}, {"title", title}, {"cases", Json::array()}};
  for (const AdvisedCase& c : cases) {
    Json one = c.on_machine ? advice_json(*c.on_machine) : Json{{"name", c.name}};
    if (c.offered && !c.on_machine) one.update(head_of(*c.offered));
    one["offered"] = c.offered ? offered_json(*c.offered) : Json(nullptr);
    json["cases"].push_back(std::move(one));
  }
  return dumped(json);
}

}  // namespace foretrain::report
