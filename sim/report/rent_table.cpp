#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "sim/report/describe.h"
#include "sim/report/figures.h"
#include "sim/report/rent_report.h"
#include "sim/report/understood_text.h"

namespace foretrain::report {
namespace {

constexpr std::size_t kShown = 12;  // of many candidates
constexpr std::size_t kNamesShown = 6, kPurchasesShown = 4;

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

Message verdict_on(const RentAnswer& answer, std::size_t index) {
  const RentCandidate& c = answer.candidates[index];
  std::vector<Message> said;
  if (answer.best == index) said.push_back(message("best"));
  if (!c.in_time) said.push_back(message("late"));
  if (c.in_time && !c.surely_in_time) said.push_back(message("may be late"));
  if (!c.in_budget) said.push_back(message("dear"));
  return listed(said);
}

std::string candidates_table(const RentQuestion& question, const RentAnswer& answer,
                             const std::vector<std::size_t>& shown, const Terminal& terminal) {
  const Words& words = terminal.words;
  TextTable table({words("offer"), words("GPUs"), words("hours"), words("range"), question.currency, words("per 1e9"),
                   words("if busy"), ""});
  table.align_left(7);
  int number = 0;
  for (const std::size_t i : shown) {
    const RentCandidate& c = answer.candidates[i];
    const std::string& name = question.offers[c.offer].name;
    const std::string many = c.machines > 1 ? fmt::format("{} x ", c.machines) : "";
    const Style style = answer.best == i ? Style::good : Style::plain;
    table.add({{fmt::format("{:>2} {} {}{}", ++number, c.on_front ? "*" : " ", many, printable(name)), style},
               {fmt::format("{}", c.gpus)},
               {rent_hours(c.time.total())},
               {words(between(c.hours, rent_hours))},
               {money(c.money)},
               {money(c.money_per_billion_tokens)},
               {money(c.busy_per_billion_tokens)},
               {words(verdict_on(answer, i)), c.answers() ? Style::plain : Style::bad}});
  }
  return table.text(terminal);
}

// What the hours of a candidate go to, where that is not training alone.
Message parts_of(const JobTime& time) {
  std::vector<Message> parts = {message("{} of training", message("{} h", rent_hours(time.training)))};
  const auto long_enough = [&](double value) { return value > 0 && value >= 0.0005 * time.total(); };
  const auto in_words = [](double value) {
    return value < 0.1 ? message("{} min", significant(60 * value, 2)) : message("{} h", rent_hours(value));
  };
  if (long_enough(time.setup)) parts.push_back(message("{} of set-up", in_words(time.setup)));
  if (long_enough(time.transfer)) parts.push_back(message("{} of copying", in_words(time.transfer)));
  if (long_enough(time.checkpoints)) parts.push_back(message("{} of checkpoints", in_words(time.checkpoints)));
  if (long_enough(time.interruptions)) parts.push_back(message("{} of interruptions", in_words(time.interruptions)));
  return parts.size() > 1 ? listed(parts) : Message();
}

// "25,000 to 40,000 CNY a month, estimate 2026-11".
Message priced(const Offer& offer) {
  const Price& price = offer.price;
  const Message band = between(price.amount, money), amount = band.empty() ? Message(money(price.amount.low)) : band;
  Message said = price.per == Price::Per::hour ? message("{} {} an hour", amount, price.currency)
                                               : message("{} {} a {}", amount, price.currency, in_words(price.per));
  if (!offer.taken.empty()) said = message("{} with {}", said, fmt::join(offer.taken, ", "));
  return message("{}, {} {}", said, in_words(offer.quote.status), offer.quote.date);
}

std::string plans(const RentQuestion& question, const RentAnswer& answer, const std::vector<std::size_t>& shown,
                  const Terminal& terminal) {
  std::string text;
  int number = 0;
  for (const std::size_t i : shown) {
    const RentCandidate& c = answer.candidates[i];
    Message line = message("{} x {}, {} a step: {}", c.gpus, c.report->subject.cluster.gpu.name,
                           duration(c.report->step_time), describe_plan(c.report->subject));
    if (const Message parts = parts_of(c.time); !parts.empty()) line = message("{}; {}", line, parts);
    line = message("{}; {}", line, priced(question.offers[c.offer]));
    const Message in_all = between(c.money_range, money);
    if (!in_all.empty()) line = message("{}; in all {} {}", line, in_all, question.currency);
    text += wrapped(fmt::format("{:>2}   {}", ++number, printable(terminal.words(line))), terminal.width, 5) + "\n";
  }
  return text;
}

Message names(const std::vector<Message>& all, bool every) {
  if (every || all.size() <= kNamesShown) return listed(all);
  return message("{} and {} more", listed({all.begin(), all.begin() + kNamesShown}), all.size() - kNamesShown);
}

// Candidates without an answer, those of one reason together.
std::string left_out(const RentQuestion& question, const RentAnswer& answer, bool every, const Terminal& terminal) {
  const Words& words = terminal.words;
  std::vector<std::pair<Message, std::vector<Message>>> reasons;
  std::map<std::string, std::size_t> index;
  for (const RentCandidate& c : answer.candidates) {
    if (c.report) continue;
    const Message why = c.beaten ? message("slower and dearer than another even at the peak of their GPUs") : c.why_not;
    const auto [at, is_new] = index.emplace(why.english(), reasons.size());
    if (is_new) reasons.push_back({why, {}});
    reasons[at->second].second.push_back(rented(question, c));
  }
  if (reasons.empty()) return "";
  std::string text = styled(words("left out"), Style::faint, terminal) + "\n";
  for (const auto& [why, who] : reasons) {
    text += wrapped("  " + printable(words("{}: {}", names(who, every), why)), terminal.width, 4) + "\n";
  }
  return text;
}

Message half_the_time(const RentQuestion& question, const RentAnswer& answer) {
  if (!(answer.halved_deadline_hours > 0)) return {};
  const Message within = message("in half the time ({} h)", rent_hours(answer.halved_deadline_hours));
  if (!answer.if_halved) return message("{}: no offer", within);
  const RentCandidate& c = answer.candidates[*answer.if_halved];
  const Message said = message("{}: {}, {} h for {} {}", within, rented(question, c), rent_hours(c.time.total()),
                               money(c.money), question.currency);
  if (!answer.best) return said;
  const double best = answer.candidates[*answer.best].money;
  if (answer.if_halved == answer.best) return message("{}, the same", said);
  return best > 0 ? message("{}, {} x the money", said, significant(c.money / best, 3)) : said;
}

Message bought_line(const RentQuestion& question, const RentAnswer& answer, const RentAnswer::Bought& bought) {
  const Purchase& purchase = question.purchases[bought.purchase];
  const RentCandidate& c = answer.candidates[bought.candidate];
  const BreakEven& b = bought.against;
  const auto either = [](Band band, const std::function<std::string(double)>& text) {
    const Message both = between(band, text);
    return both.empty() ? Message(text(band.low)) : both;
  };
  const Message pays = std::isfinite(b.months.high)
                           ? message("pays after {} months around the clock, {} such jobs",
                                     either(b.months, rent_hours), grouped(std::ceil(bought.jobs)))
                           : message("does not pay at every price and rent");
  const Message own =
      b.own_per_month > 0 ? Message(money(b.own_per_month)) : message("nothing (rent.ownership would say)");
  return message("{} x {} for {} {}, {}, {}: {}; renting {} costs {} a month, owning {}", c.gpus / purchase.gpus,
                 purchase.name, either(b.cost, money), question.currency, in_words(purchase.quote.status),
                 purchase.quote.date, pays, rented(question, c), either(b.rent_per_month, money), own);
}

// Of many purchases those of the GPUs to be rented are shown.
std::string buying(const RentQuestion& question, const RentAnswer& answer, bool every, const Terminal& terminal) {
  if (question.purchases.empty()) return "";
  std::string text = styled(terminal.words("buying against renting"), Style::faint, terminal) + "\n";
  std::vector<Message> others, hidden;
  const auto add = [&](const Message& line) {
    text += wrapped("  " + printable(terminal.words(line)), terminal.width, 4) + "\n";
  };
  for (std::size_t i = 0; i < question.purchases.size(); ++i) {
    const std::string& name = question.purchases[i].name;
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
  if (!hidden.empty()) add(message("of other GPUs, with --all: {}", names(hidden, every)));
  if (!others.empty()) {
    add(message("not compared: {}: no machine above has such GPUs but by spot, or there is no rate of exchange",
                names(others, every)));
  }
  return text;
}

// What was filled in for the job; what was for a machine is that machine's.
std::vector<Message> assumed_of_all(const RentQuestion& question) {
  std::vector<Message> all = question.assumptions;
  for (const Message& said : question.cases.front().assumptions) {
    const bool everywhere = std::all_of(question.cases.begin(), question.cases.end(), [&](const Case& c) {
      return std::find(c.assumptions.begin(), c.assumptions.end(), said) != c.assumptions.end();
    });
    if (everywhere) all.push_back(said);
  }
  return all;
}

}  // namespace

std::string rent_understood(const RentQuestion& question, const Terminal& terminal) {
  const Words& words = terminal.words;
  std::string text = styled(words("as understood"), Style::faint, terminal) + "\n";
  // Machines differ in what is taken where the question leaves it open.
  std::vector<std::pair<std::string, std::vector<std::string>>> all;
  for (const Case& c : question.cases) {
    for (const Described& part_of_case : describe(c)) {
      const std::string what = part_of_case.what.english(), description = words(part_of_case.description);
      if (what == "machine" || what == "plan") continue;
      auto part = std::find_if(all.begin(), all.end(), [&](const auto& p) { return p.first == what; });
      if (part == all.end()) part = all.insert(all.end(), {what, {}});
      auto& said = part->second;
      if (std::find(said.begin(), said.end(), description) == said.end()) said.push_back(description);
    }
  }
  for (const auto& [what, said] : all) {
    text +=
        wrapped("  " + words("{}: {}", words.term(what), fmt::join(said, words("; or "))), terminal.width, 4) + "\n";
  }
  text += "  " + words("work: {} tokens", grouped(question.cases.front().train.tokens)) + "\n";
  for (const ExchangeRate& rate : question.exchange) {
    text += wrapped("  " + printable(words("exchange: 1 {} = {} {} ({}, {})", rate.from, fmt::format("{:g}", rate.rate),
                                           rate.to, rate.date, rate.source)),
                    terminal.width, 4) +
            "\n";
  }
  text += wrapped("  " + words("money: in the middle of a price's band and of the expected hours; months and years "
                               "that are begun are paid whole"),
                  terminal.width, 4) +
          "\n";
  const std::string filled_in = sentences(message("assumed"), {{"", assumed_of_all(question)}}, terminal);
  return filled_in.empty() ? text : text + "\n" + filled_in;
}

std::string rent_table(const RentQuestion& question, const RentAnswer& answer, const Terminal& terminal, bool every) {
  const Words& words = terminal.words;
  std::string text = question.title.empty() ? "" : styled(printable(question.title), Style::bold, terminal) + "\n\n";
  text += styled(wrapped(printable(words(rent_verdict(question, answer))), terminal.width, 2), Style::good, terminal) +
          "\n";
  if (!answer.complete) {
    text += wrapped(words("stopped before the end: better machines may be among those that were not looked at"),
                    terminal.width, 2) +
            "\n";
  }
  const Message half = half_the_time(question, answer);
  if (!half.empty()) text += wrapped(printable(words(half)), terminal.width, 2) + "\n";
  const std::vector<std::size_t> shown = to_show(answer, every);
  if (!shown.empty()) {
    const auto simulated = std::count_if(answer.candidates.begin(), answer.candidates.end(),
                                         [](const RentCandidate& c) { return c.report.has_value(); });
    text += "\n" + candidates_table(question, answer, shown, terminal);
    const std::size_t hidden = static_cast<std::size_t>(simulated) - shown.size();
    Message legend = message(
        "*: no other is both faster and cheaper. {} per 1e9 tokens of this job, and if the machine trained all the "
        "time",
        question.currency);
    if (hidden > 0) legend = message("{}; {} more are simulated, --all shows them", legend, hidden);
    text += wrapped(words(legend), terminal.width, 3) + "\n";
    text += "\n" + plans(question, answer, shown, terminal);
  }
  for (const std::string& section : {left_out(question, answer, every, terminal),
                                     buying(question, answer, every, terminal), rent_understood(question, terminal)}) {
    if (!section.empty()) text += "\n" + section;
  }
  return text;
}

}  // namespace foretrain::report
