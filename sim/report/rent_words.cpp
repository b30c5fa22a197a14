// What to rent, in sentences.
#include <fmt/format.h>

#include "sim/report/figures.h"
#include "sim/report/rent_report.h"

namespace foretrain::report {
namespace {

// "12.3 h (10.1 to 14.5)"
Message in_hours(double value, Band range) {
  const Message expected = message("{} h", rent_hours(value)), band = between(range, rent_hours);
  return band.empty() ? expected : message("{} ({})", expected, band);
}

Message in_money(double value, Band range, const std::string& currency) {
  const Message expected = message("{} {}", money(value), currency), band = between(range, money);
  return band.empty() ? expected : message("{} ({})", expected, band);
}

// Precondition: a deadline or a budget.
Message asked(const RentQuestion& question) {
  const Message within =
      question.deadline_hours ? message("within {} h", rent_hours(*question.deadline_hours)) : Message();
  if (!question.budget) return within;
  const Message spent = message("for at most {} {}", money(*question.budget), question.currency);
  return question.deadline_hours ? message("{} and {}", within, spent) : spent;
}

// What one would have to give up.
Message nothing_answers(const RentQuestion& question, const RentAnswer& answer) {
  if (!answer.fastest && !answer.complete) return message("no machine was judged before the search was stopped");
  if (!answer.fastest) return message("the job fits on none of the machines offered");
  const RentCandidate &fastest = answer.candidates[*answer.fastest], &cheapest = answer.candidates[*answer.cheapest];
  const Message said = message("no offer finishes {}: the fastest is {}, {}", asked(question),
                               rented(question, fastest), takes(question, fastest));
  if (answer.fastest == answer.cheapest) return said;
  return message("{}; the cheapest is {}, {}", said, rented(question, cheapest), takes(question, cheapest));
}

}  // namespace

std::string rent_hours(double value) { return significant(value, 3); }

Message between(Band band, const std::function<std::string(double)>& text) {
  const std::string from = text(band.low), to = text(band.high);
  return from == to ? Message() : message("{} to {}", from, to);
}

Message takes(const RentQuestion& question, const RentCandidate& c) {
  return message("in {} for {}", in_hours(c.time.total(), c.hours),
                 in_money(c.money, c.money_range, question.currency));
}

Message rented(const RentQuestion& question, const RentCandidate& c) {
  const Offer& offer = question.offers[c.offer];
  const Message machines = c.machines > 1 ? message("{} x {}", c.machines, offer.name) : Message(offer.name);
  return c.report ? message("{} ({} x {})", machines, c.gpus, c.report->subject.cluster.gpu.name) : machines;
}

Message rent_verdict(const RentQuestion& question, const RentAnswer& answer) {
  if (!answer.best) return nothing_answers(question, answer);
  const RentCandidate& best = answer.candidates[*answer.best];
  const bool for_speed = question.budget && !question.deadline_hours;
  Message said = message("rent {}: it finishes {}", rented(question, best), takes(question, best));
  if (for_speed) {
    said = message("{}, the fastest {}", said, asked(question));
  } else if (question.deadline_hours) {
    said = message("{}, the cheapest {}", said, asked(question));
  } else {
    said = message("{}, the cheapest of all", said);
  }
  if (!best.surely_in_time) {
    said = message("{}, but later than that if it is as slow as such runs can be", said);
  }
  const RentCandidate& fastest = answer.candidates[*answer.fastest];
  if (for_speed || answer.fastest == answer.best) return said;
  return message("{}; the fastest, {}, takes {} h for {} {}", said, rented(question, fastest),
                 rent_hours(fastest.time.total()), money(fastest.money), question.currency);
}

}  // namespace foretrain::report
