#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "sim/report/describe.h"
#include "sim/report/figures.h"
#include "sim/report/rent_report.h"

namespace foretrain::report {
namespace {

constexpr std::size_t kShown = 12;  // of many candidates
constexpr std::size_t kNamesShown = 6, kPurchasesShown = 4;

std::string between(double low, double high, const std::function<std::string(double)>& text) {
  const std::string from = text(low), to = text(high);
  return from == to ? "" : from + " to " + to;
}

std::string hours(double value) { return significant(value, 3); }

// Those on the front, and the cheapest of the others.
std::vector<std::size_t> to_show(const RentAnswer& answer, bool every) {
  std::vector<std::size_t> simulated, shown;
  for (std::size_t i = 0; i < answer.candidates.size(); ++i) {
    if (answer.candidates[i].report) simulated.push_back(i);
  }
  if (every || simulated.size() <= kShown) return simulated;
  const auto cheaper = [&](std::size_t a, std::size_t b) {
    return answer.candidates[a].money < answer.candidates[b].money;
  };
  const auto front =
      std::stable_partition(simulated.begin(), simulated.end(), [&](auto i) { return answer.candidates[i].on_front; });
  std::stable_sort(front, simulated.end(), cheaper);
  const std::size_t of_front = static_cast<std::size_t>(front - simulated.begin());
  shown.assign(simulated.begin(),
               simulated.begin() + static_cast<std::ptrdiff_t>(std::min(simulated.size(), std::max(of_front, kShown))));
  std::sort(shown.begin(), shown.end());
  return shown;
}

std::string verdict_on(const RentAnswer& answer, std::size_t index) {
  const RentCandidate& c = answer.candidates[index];
  std::string text;
  const auto add = [&](const char* word) { text += (text.empty() ? "" : ", ") + std::string(word); };
  if (answer.best == index) add("best");
  if (!c.in_time) add("late");
  if (c.in_time && !c.surely_in_time) add("may be late");
  if (!c.in_budget) add("dear");
  return text;
}

std::string candidates_table(const RentQuestion& question, const RentAnswer& answer,
                             const std::vector<std::size_t>& shown, const Terminal& terminal) {
  TextTable table({"offer", "GPUs", "hours", "range", question.currency, "per 1e9", "if busy", ""});
  table.align_left(7);
  int number = 0;
  for (const std::size_t i : shown) {
    const RentCandidate& c = answer.candidates[i];
    const std::string& name = question.offers[c.offer].name;
    const std::string many = c.machines > 1 ? fmt::format("{} x ", c.machines) : "";
    const Style style = answer.best == i ? Style::good : Style::plain;
    table.add({{fmt::format("{:>2} {} {}{}", ++number, c.on_front ? "*" : " ", many, printable(name)), style},
               {fmt::format("{}", c.gpus)},
               {hours(c.time.total())},
               {between(c.hours.low, c.hours.high, hours)},
               {money(c.money)},
               {money(c.money_per_billion_tokens)},
               {money(c.busy_per_billion_tokens)},
               {verdict_on(answer, i), c.answers() ? Style::plain : Style::bad}});
  }
  return table.text(terminal);
}

// What the hours of a candidate go to beside training.
std::string beside_training(const JobTime& time) {
  std::string text;
  const auto add = [&](double value, const char* what) {
    if (value <= 0 || value < 0.0005 * time.total()) return;
    text += value < 0.1 ? fmt::format(", {} min {}", significant(60 * value, 2), what)
                        : fmt::format(", {} h {}", hours(value), what);
  };
  add(time.setup, "of set-up");
  add(time.transfer, "of copying");
  add(time.checkpoints, "of checkpoints");
  add(time.interruptions, "of interruptions");
  return text.empty() ? "" : fmt::format("; {} h of training{}", hours(time.training), text);
}

// "25,000 to 40,000 CNY a month, estimate 2026-11".
std::string priced(const Offer& offer) {
  const Price& price = offer.price;
  const std::string band = between(price.amount.low, price.amount.high, money);
  std::string text = fmt::format("{} {} {} {}", band.empty() ? money(price.amount.low) : band, price.currency,
                                 price.per == Price::Per::hour ? "an" : "a", to_string(price.per));
  if (!offer.taken.empty()) text += fmt::format(" with {}", fmt::join(offer.taken, ", "));
  return printable(fmt::format("{}, {} {}", text, to_string(offer.quote.status), offer.quote.date));
}

std::string plans(const RentQuestion& question, const RentAnswer& answer, const std::vector<std::size_t>& shown,
                  const Terminal& terminal) {
  std::string text;
  int number = 0;
  for (const std::size_t i : shown) {
    const RentCandidate& c = answer.candidates[i];
    const Offer& offer = question.offers[c.offer];
    const std::string in_all = between(c.money_range.low, c.money_range.high, money);
    text += wrapped(fmt::format("{:>2}   {} x {}, {} a step: {}{}; {}{}", ++number, c.gpus,
                                c.report->subject.cluster.gpu.name, duration(c.report->step_time),
                                terminal.words(describe_plan(c.report->subject)), beside_training(c.time), priced(offer),
                                in_all.empty() ? "" : fmt::format("; in all {} {}", in_all, question.currency)),
                    terminal.width, 5) +
            "\n";
  }
  return text;
}

std::string names(const std::vector<std::string>& all, bool every) {
  if (every || all.size() <= kNamesShown) return fmt::format("{}", fmt::join(all, ", "));
  return fmt::format("{} and {} more", fmt::join(all.begin(), all.begin() + kNamesShown, ", "),
                     all.size() - kNamesShown);
}

// Candidates without an answer, those of one reason together.
std::string left_out(const RentQuestion& question, const RentAnswer& answer, bool every, const Terminal& terminal) {
  std::vector<std::pair<std::string, std::vector<std::string>>> reasons;
  std::map<std::string, std::size_t> index;
  for (const RentCandidate& c : answer.candidates) {
    if (c.report) continue;
    const std::string why = c.beaten ? "slower and dearer than another even at the peak of their GPUs" : c.why_not;
    const auto [at, is_new] = index.emplace(why, reasons.size());
    if (is_new) reasons.push_back({why, {}});
    reasons[at->second].second.push_back(printable(rented(question, c)));
  }
  if (reasons.empty()) return "";
  std::string text = styled("left out", Style::faint, terminal) + "\n";
  for (const auto& [why, who] : reasons) {
    text += wrapped(fmt::format("  {}: {}", names(who, every), printable(why)), terminal.width, 4) + "\n";
  }
  return text;
}

std::string half_the_time(const RentQuestion& question, const RentAnswer& answer) {
  if (!(answer.halved_deadline_hours > 0)) return "";
  const std::string within = fmt::format("in half the time ({} h)", hours(answer.halved_deadline_hours));
  if (!answer.if_halved) return within + ": no offer";
  const RentCandidate& c = answer.candidates[*answer.if_halved];
  std::string text = fmt::format("{}: {}, {} h for {} {}", within, rented(question, c), hours(c.time.total()),
                                 money(c.money), question.currency);
  if (!answer.best) return text;
  const double best = answer.candidates[*answer.best].money;
  if (answer.if_halved == answer.best) return text + ", the same";
  return best > 0 ? text + fmt::format(", {} x the money", significant(c.money / best, 3)) : text;
}

std::string bought_line(const RentQuestion& question, const RentAnswer& answer, const RentAnswer::Bought& bought) {
  const Purchase& purchase = question.purchases[bought.purchase];
  const RentCandidate& c = answer.candidates[bought.candidate];
  const BreakEven& b = bought.against;
  const auto either = [](Band band, const std::function<std::string(double)>& text) {
    const std::string both = between(band.low, band.high, text);
    return both.empty() ? text(band.low) : both;
  };
  const std::string pays = std::isfinite(b.months.high)
                               ? fmt::format("pays after {} months around the clock, {} such jobs",
                                             either(b.months, hours), grouped(std::ceil(bought.jobs)))
                               : "does not pay at every price and rent";
  const std::string own = b.own_per_month > 0 ? money(b.own_per_month) : "nothing (rent.ownership would say)";
  return printable(fmt::format("{} x {} for {} {}, {}, {}: {}; renting {} costs {} a month, owning {}",
                               c.gpus / purchase.gpus, purchase.name, either(b.cost, money), question.currency,
                               to_string(purchase.quote.status), purchase.quote.date, pays, rented(question, c),
                               either(b.rent_per_month, money), own));
}

// Of many purchases those of the GPUs to be rented are shown.
std::string buying(const RentQuestion& question, const RentAnswer& answer, bool every, const Terminal& terminal) {
  if (question.purchases.empty()) return "";
  std::string text = styled("buying against renting", Style::faint, terminal) + "\n";
  std::vector<std::string> others, hidden;
  const auto add = [&](const std::string& line) { text += wrapped("  " + line, terminal.width, 4) + "\n"; };
  for (std::size_t i = 0; i < question.purchases.size(); ++i) {
    const std::string name = printable(question.purchases[i].name);
    const auto bought =
        std::find_if(answer.bought.begin(), answer.bought.end(), [i](const auto& b) { return b.purchase == i; });
    if (bought == answer.bought.end()) {
      others.push_back(name);
    } else if (every || answer.bought.size() <= kPurchasesShown ||
               (answer.best &&
                question.purchases[i].gpu == answer.candidates[*answer.best].report->subject.cluster.gpu.name)) {
      add(bought_line(question, answer, *bought));
    } else {
      hidden.push_back(name);
    }
  }
  if (!hidden.empty()) add(fmt::format("of other GPUs, with --all: {}", names(hidden, every)));
  if (!others.empty()) {
    add(fmt::format("not compared: {}: no machine above has such GPUs but by spot, or there is no rate of exchange",
                    names(others, every)));
  }
  return text;
}

std::string understood(const RentQuestion& question, const Terminal& terminal) {
  std::string text = styled("as understood", Style::faint, terminal) + "\n";
  // Machines differ in what is taken where the question leaves it open.
  std::vector<std::pair<std::string, std::vector<std::string>>> all;
  for (const Case& c : question.cases) {
    for (const Described& part_of_case : describe(c)) {
      const std::string what = part_of_case.what.english(), description = terminal.words(part_of_case.description);
      if (what == "machine" || what == "plan") continue;
      auto part = std::find_if(all.begin(), all.end(), [&](const auto& p) { return p.first == what; });
      if (part == all.end()) part = all.insert(all.end(), {what, {}});
      auto& said = part->second;
      if (std::find(said.begin(), said.end(), description) == said.end()) said.push_back(description);
    }
  }
  for (const auto& [what, said] : all) {
    text += wrapped(fmt::format("  {}: {}", terminal.words.term(what), fmt::join(said, "; or ")), terminal.width, 4) + "\n";
  }
  text += fmt::format("  work: {} tokens\n", grouped(question.cases.front().train.tokens));
  for (const ExchangeRate& rate : question.exchange) {
    text += wrapped(fmt::format("  exchange: 1 {} = {:g} {} ({}, {})", rate.from, rate.rate, rate.to, rate.date,
                                printable(rate.source)),
                    terminal.width, 4) +
            "\n";
  }
  return text +
         wrapped(
             "  money: in the middle of a price's band and of the expected hours; months and years that are "
             "begun are paid whole",
             terminal.width, 4) +
         "\n";
}

}  // namespace

std::string rent_table(const RentQuestion& question, const RentAnswer& answer, const Terminal& terminal, bool every) {
  std::string text = styled(printable(question.title), Style::bold, terminal) + "\n\n";
  text += styled(wrapped(printable(rent_verdict(question, answer)), terminal.width, 2), Style::good, terminal) + "\n";
  const std::string half = half_the_time(question, answer);
  if (!half.empty()) text += wrapped(printable(half), terminal.width, 2) + "\n";
  const std::vector<std::size_t> shown = to_show(answer, every);
  if (!shown.empty()) {
    const auto simulated = std::count_if(answer.candidates.begin(), answer.candidates.end(),
                                         [](const RentCandidate& c) { return c.report.has_value(); });
    text += "\n" + candidates_table(question, answer, shown, terminal);
    const std::size_t hidden = static_cast<std::size_t>(simulated) - shown.size();
    text += wrapped(fmt::format("*: no other is both faster and cheaper. {} per 1e9 tokens of this job, and if the "
                                "machine trained all the time{}",
                                question.currency,
                                hidden > 0 ? fmt::format("; {} more are simulated, --all shows them", hidden) : ""),
                    terminal.width, 3) +
            "\n";
    text += "\n" + plans(question, answer, shown, terminal);
  }
  for (const std::string& section : {left_out(question, answer, every, terminal),
                                     buying(question, answer, every, terminal), understood(question, terminal)}) {
    if (!section.empty()) text += "\n" + section;
  }
  return text;
}

}  // namespace foretrain::report
