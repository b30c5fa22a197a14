// What to rent, in sentences.
#include <fmt/format.h>

#include <functional>

#include "sim/report/figures.h"
#include "sim/report/rent_report.h"

namespace foretrain::report {
namespace {

std::string range(double low, double high, const std::function<std::string(double)>& text) {
  const std::string from = text(low), to = text(high);
  return from == to ? "" : fmt::format(" ({} to {})", from, to);
}

std::string hours(double value) { return significant(value, 3); }

std::string takes(const RentQuestion& question, const RentCandidate& c) {
  return fmt::format("in {} h{} for {} {}{}", hours(c.time.total()), range(c.hours.low, c.hours.high, hours),
                     money(c.money), question.currency, range(c.money_range.low, c.money_range.high, money));
}

std::string asked(const RentQuestion& question) {
  std::string text;
  if (question.deadline_hours) text = fmt::format("within {} h", hours(*question.deadline_hours));
  if (question.budget) {
    text += fmt::format("{}for at most {} {}", text.empty() ? "" : " and ", money(*question.budget), question.currency);
  }
  return text;
}

// What one would have to give up.
std::string nothing_answers(const RentQuestion& question, const RentAnswer& answer) {
  if (!answer.fastest) return "the job fits on none of the machines offered";
  const RentCandidate &fastest = answer.candidates[*answer.fastest], &cheapest = answer.candidates[*answer.cheapest];
  std::string text = fmt::format("no offer finishes {}", asked(question));
  text += fmt::format(": the fastest is {}, {}", rented(question, fastest), takes(question, fastest));
  if (answer.fastest != answer.cheapest) {
    text += fmt::format("; the cheapest is {}, {}", rented(question, cheapest), takes(question, cheapest));
  }
  return text;
}

}  // namespace

std::string rented(const RentQuestion& question, const RentCandidate& c) {
  const Offer& offer = question.offers[c.offer];
  std::string text = c.machines > 1 ? fmt::format("{} x {}", c.machines, offer.name) : offer.name;
  if (c.report) text += fmt::format(" ({} x {})", c.gpus, c.report->subject.cluster.gpu.name);
  return text;
}

std::string rent_verdict(const RentQuestion& question, const RentAnswer& answer) {
  if (!answer.best) return nothing_answers(question, answer);
  const RentCandidate& best = answer.candidates[*answer.best];
  const bool for_speed = question.budget && !question.deadline_hours;
  std::string text = fmt::format("rent {}: it finishes {}", rented(question, best), takes(question, best));
  if (question.deadline_hours || question.budget) {
    text += fmt::format(", the {} {}", for_speed ? "fastest" : "cheapest", asked(question));
  } else {
    text += ", the cheapest of all";
  }
  if (!best.surely_in_time) text += ", but later than that if it is as slow as such runs can be";
  const RentCandidate& fastest = answer.candidates[*answer.fastest];
  if (!for_speed && answer.fastest != answer.best) {
    text += fmt::format("; the fastest, {}, takes {} h for {} {}", rented(question, fastest),
                        hours(fastest.time.total()), money(fastest.money), question.currency);
  }
  return text;
}

}  // namespace foretrain::report
