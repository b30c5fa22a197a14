#include <cmath>

#include "sim/report/csv_row.h"
#include "sim/report/describe.h"
#include "sim/report/figures.h"
#include "sim/report/json_support.h"
#include "sim/report/rent_report.h"

namespace foretrain::report {
namespace {

Json band_json(Band band) { return Json{band.low, band.high}; }
Json finite(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json price_json(const Price& price) {
  Json terms = Json::array();
  for (const Price::Term& term : price.terms) terms.push_back({{"hours", term.hours}, {"factor", term.factor}});
  return {{"amount", band_json(price.amount)},    {"currency", price.currency},           {"per", to_string(price.per)},
          {"whole_periods", price.whole_periods}, {"minimum_hours", price.minimum_hours}, {"terms", std::move(terms)}};
}

Json offer_json(const Offer& offer) {
  return {{"name", offer.name},
          {"with", offer.taken},
          {"provider", or_null(offer.provider)},
          {"price", price_json(offer.price)},
          {"status", to_string(offer.quote.status)},
          {"date", offer.quote.date},
          {"source", offer.quote.source}};
}

Json time_json(const JobTime& time) {
  return {{"setup", time.setup},
          {"transfer", time.transfer},
          {"training", time.training},
          {"checkpoints", time.checkpoints},
          {"interruptions", time.interruptions}};
}

Json candidate_json(const RentQuestion& question, const RentCandidate& c) {
  Json json{{"offer", offer_json(question.offers[c.offer])},     {"machines", c.machines},
            {"gpus", c.gpus > 0 ? Json(c.gpus) : Json(nullptr)}, {"fits", c.report.has_value()},
            {"why_not", or_null(c.why_not.english())},           {"beaten", c.beaten}};
  if (!c.report) return json;
  const CaseReport& r = *c.report;
  json["gpu"] = r.subject.cluster.gpu.name;
  json["plan"] = plan_json(r.subject);
  json["step_time_s"] = exact_seconds(r.step_time);
  json["step_time_range_s"] = r.error_bar ? Json{r.error_bar->low_s, r.error_bar->high_s} : Json(nullptr);
  json["confidence"] = r.error_bar ? Json(name_of(r.error_bar->confidence)) : Json(nullptr);
  json["tokens_per_s"] = r.tokens_per_second;
  json["hours"] = c.time.total();
  json["hours_range"] = band_json(c.hours);
  json["hours_of"] = time_json(c.time);
  json["money"] = c.money;
  json["money_range"] = band_json(c.money_range);
  json["money_per_billion_tokens"] = c.money_per_billion_tokens;
  json["busy_per_billion_tokens"] = c.busy_per_billion_tokens;
  json["in_time"] = c.in_time;
  json["surely_in_time"] = c.surely_in_time;
  json["in_budget"] = c.in_budget;
  json["offloads"] = c.offloads;
  json["pareto"] = c.on_front;
  return json;
}

Json bought_json(const RentQuestion& question, const RentAnswer::Bought& bought) {
  const BreakEven& b = bought.against;
  return {{"purchase", question.purchases[bought.purchase].name},
          {"candidate", bought.candidate},
          {"cost", band_json(b.cost)},
          {"own_per_month", b.own_per_month},
          {"rent_per_month", band_json(b.rent_per_month)},
          {"months", Json{finite(b.months.low), finite(b.months.high)}},
          {"jobs", finite(bought.jobs)}};
}

}  // namespace

std::string rent_json(const RentQuestion& question, const RentAnswer& answer) {
  Json json{{"schema", 1},
            {"title", question.title},
            {"ask", "rent"},
            {"currency", question.currency},
            {"deadline_h", or_null(question.deadline_hours)},
            {"budget", or_null(question.budget)},
            {"tokens", question.cases.front().train.tokens},
            {"candidates", Json::array()}};
  for (const RentCandidate& c : answer.candidates) json["candidates"].push_back(candidate_json(question, c));
  // Of the candidates, by their place in the list.
  json["best"] = or_null(answer.best);
  json["fastest"] = or_null(answer.fastest);
  json["cheapest"] = or_null(answer.cheapest);
  json["if_deadline_halved"] = {{"deadline_h", answer.halved_deadline_hours}, {"best", or_null(answer.if_halved)}};
  json["bought"] = Json::array();
  for (const RentAnswer::Bought& bought : answer.bought) json["bought"].push_back(bought_json(question, bought));
  json["complete"] = answer.complete;
  json["verdict"] = rent_verdict(question, answer).english();
  return dumped(json);
}

std::string rent_csv(const RentQuestion& question, const RentAnswer& answer) {
  std::string text;
  for (const RentCandidate& c : answer.candidates) {
    const Offer& offer = question.offers[c.offer];
    const auto of_report = [&](auto value) { return c.report ? std::optional(value) : std::nullopt; };
    CsvRow row;
    row.add("offer", offer.name);
    row.add("provider", offer.provider);
    row.add("machines", c.machines);
    row.add("gpus", c.gpus);
    row.add("gpu", c.report ? c.report->subject.cluster.gpu.name : "");
    row.add("plan", c.report ? describe_plan(c.report->subject).english() : "");
    row.add("fits", c.report.has_value());
    row.add("step_time_s", c.report ? std::optional(exact_seconds(c.report->step_time)) : std::nullopt);
    row.add("hours", of_report(c.time.total()));
    row.add("hours_low", of_report(c.hours.low));
    row.add("hours_high", of_report(c.hours.high));
    row.add("currency", question.currency);
    row.add("money", of_report(c.money));
    row.add("money_low", of_report(c.money_range.low));
    row.add("money_high", of_report(c.money_range.high));
    row.add("money_per_billion_tokens", of_report(c.money_per_billion_tokens));
    row.add("busy_per_billion_tokens", of_report(c.busy_per_billion_tokens));
    row.add("in_time", of_report(c.in_time));
    row.add("in_budget", of_report(c.in_budget));
    row.add("pareto", of_report(c.on_front));
    row.add("status", to_string(offer.quote.status));
    row.add("date", offer.quote.date);
    row.add("why_not", c.why_not.english());
    if (text.empty()) text = row.names();
    text += row.values();
  }
  return text;
}

}  // namespace foretrain::report
