#include "sim/report/advise_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/report/describe.h"
#include "sim/report/figures.h"
#include "sim/report/rent_report.h"
#include "sim/report/understood_text.h"

namespace foretrain::report {
namespace {

Message span_of_time(double seconds) {
  if (seconds >= 2 * 86400) return message("{} days", significant(seconds / 86400, 3));
  if (seconds >= 2 * 3600) return message("{} hours", significant(seconds / 3600, 3));
  return message("{} minutes", significant(seconds / 60, 3));
}

Message machine_of(const Advice& a, int gpus) {
  const ClusterDescription& c = a.subject.cluster;
  if (gpus == 1) return message("a single {}", c.gpu.name);
  if (gpus <= c.gpus_per_node) return message("{} x {} in one node", gpus, c.gpu.name);
  return message("{} x {} in {} nodes", gpus, c.gpu.name, (gpus + c.gpus_per_node - 1) / c.gpus_per_node);
}

// "...; fused kernels makes it 1.2 x faster at no cost"
Message with_free_changes(Message said, const Advice::Size& size) {
  if (!size.together) return said;
  const Outcome &now = size.answer()->outcome, &all = size.together->outcome;
  const std::string times = fmt::format("{:.2f}", now.step_time.seconds() / all.step_time.seconds());
  return size.helpful.size() == 1 ? message("{}; {} makes it {} x faster at no cost", said, size.helpful.front(), times)
                                  : message("{}; {} make it {} x faster at no cost", said, listed(size.helpful), times);
}

double saved(const Outcome& now, const Outcome& then) { return 1 - then.step_time.seconds() / now.step_time.seconds(); }

std::string sizes_table(const Advice& a, const Terminal& terminal) {
  const Words& words = terminal.words;
  TextTable table(
      {words("1 how many cards"), words("fits"), words("step"), words("tokens/s"), words("memory GiB"), words("job")});
  table.align_left(1);
  for (std::size_t i = 0; i < a.sizes.size(); ++i) {
    const Advice::Size& size = a.sizes[i];
    const std::string name = fmt::format("{} x {}", size.gpus, a.subject.cluster.gpu.name);
    const Advice::Answer* answer = size.answer();
    if (answer == nullptr) {
      const std::string why = !size.why_not.empty()    ? words("no plan")
                              : size.missing.value > 0 ? words("{} GiB short", gib(size.missing))
                                                       : words("no");
      table.add({{name}, {why, Style::bad}, {"-"}, {"-"}, {"-"}, {""}});
      continue;
    }
    const bool chosen = a.recommended == i;
    table.add({{name, chosen ? Style::good : Style::plain},
               {size.best ? words("yes") : words("with changes")},
               {duration(answer->outcome.step_time)},
               {grouped(answer->outcome.tokens_per_second)},
               {gib(answer->outcome.needed)},
               {answer->seconds ? words(span_of_time(*answer->seconds)) : ""}});
  }
  std::string text = table.text(terminal);
  for (const Advice::Size& size : a.sizes) {
    if (const Advice::Answer* answer = size.answer()) {
      text += wrapped("  " + words("{}: {}", size.gpus, describe_plan(answer->subject)), terminal.width, 4) + "\n";
    }
    if (size.changed) {
      text +=
          wrapped("  " + words("on {} it fits with: {}", size.gpus, listed(size.changes)), terminal.width, 4) + "\n";
    }
    if (!size.why_not.empty()) {
      text += wrapped("  " + printable(words("{} GPUs: {}", size.gpus, size.why_not)), terminal.width, 4) + "\n";
    }
  }
  return text;
}

std::string free_table(const Advice::Size& size, const Terminal& terminal) {
  if (size.answer() == nullptr) return "";
  const Words& words = terminal.words;
  const Outcome& now = size.answer()->outcome;
  if (size.free.empty()) return "\n" + words("2 free to try there: nothing that is not in use already") + "\n";
  TextTable table({words("2 free to try there"), words("step"), words("time"), words("memory GiB"),
                   words("with its best plan"), words("time")});
  for (const Advice::Free& f : size.free) {
    table.add({{words(f.what)},
               {duration(f.same_plan.step_time)},
               {signed_percent(-saved(now, f.same_plan))},
               {gib(f.same_plan.needed), f.same_plan.fits ? Style::plain : Style::bad},
               {f.best_plan ? duration(f.best_plan->step_time) : ""},
               {f.best_plan ? signed_percent(-saved(now, *f.best_plan)) : ""}});
  }
  if (size.together && size.helpful.size() > 1) {
    const Outcome& all = size.together->outcome;
    table.add({{words("all that are faster")},
               {""},
               {""},
               {gib(all.needed)},
               {duration(all.step_time)},
               {signed_percent(-saved(now, all))}});
  }
  return "\n" + table.text(terminal);
}

std::string hardware_step(const Advice& a, const Terminal& terminal) {
  if (!a.recommended) return "";
  const Words& words = terminal.words;
  const Advice::Answer& base = *a.sizes[*a.recommended].answer();
  TextTable table({words("3 then more hardware"), words("step"), words("speed-up"), words("job")});
  bool any = false;
  for (std::size_t i = *a.recommended + 1; i < a.sizes.size(); ++i) {
    const Advice::Answer* more = a.sizes[i].answer();
    if (more == nullptr) continue;
    any = true;
    table.add({{words(machine_of(a, a.sizes[i].gpus))},
               {duration(more->outcome.step_time)},
               {fmt::format("{:.2f} x", base.outcome.step_time.seconds() / more->outcome.step_time.seconds())},
               {more->seconds ? words(span_of_time(*more->seconds)) : ""}});
  }
  return any ? "\n" + table.text(terminal) : "";
}

// Step 1 where no machine is named: the cheapest of each kind.
std::string kinds_table(const OfferedAdvice& a, const Terminal& terminal) {
  const Words& words = terminal.words;
  TextTable table({words("1 how many cards"), words("offer"), words("GPUs"), words("hours"), a.question.currency,
                   words("memory GiB"), ""});
  table.align_left(1);
  table.align_left(6);
  std::string plans;
  for (const OfferedAdvice::Step& step : a.steps) {
    const Message kind = kind_in_words(step.kind);
    if (!step.cheapest) {
      table.add({{words(kind)}, {"-"}, {"-"}, {"-"}, {"-"}, {"-"}, {""}});
      plans += wrapped("  " + printable(words("{}: {}", kind, step.why_not)), terminal.width, 4) + "\n";
      continue;
    }
    const RentCandidate& c = a.answer.candidates[*step.cheapest];
    const CaseReport& r = *c.report;
    const bool best = a.answer.best == step.cheapest;
    table.add({{words(kind), best ? Style::good : Style::plain},
               {printable(c.machines > 1 ? fmt::format("{} x {}", c.machines, a.question.offers[c.offer].name)
                                         : a.question.offers[c.offer].name)},
               {fmt::format("{}", c.gpus)},
               {rent_hours(c.time.total())},
               {money(c.money)},
               {fmt::format("{} / {}", gib(r.memory[r.fullest].needed), gib(r.capacity))},
               {words(best          ? message("best")
                      : !c.in_time  ? message("late")
                      : c.in_budget ? Message()
                                    : message("dear"))}});
    plans += wrapped("  " + words("{} x {}: {}", c.gpus, r.subject.cluster.gpu.name, describe_plan(r.subject)),
                     terminal.width, 4) +
             "\n";
  }
  return table.text(terminal) + plans;
}

// On the front between money and time: what is at least twice as fast as what stands before it, the cheapest first.
std::vector<const RentCandidate*> faster_ones(const OfferedAdvice& a) {
  constexpr std::size_t kMost = 5;
  std::vector<const RentCandidate*> front, chosen;
  for (const RentCandidate& c : a.answer.candidates) {
    if (c.report && c.on_front) front.push_back(&c);
  }
  std::sort(front.begin(), front.end(),
            [](const RentCandidate* x, const RentCandidate* y) { return x->time.total() > y->time.total(); });
  double last = a.answer.candidates[*a.answer.best].time.total();
  for (const RentCandidate* c : front) {
    if (chosen.size() == kMost || c->time.total() > last / 2) continue;
    chosen.push_back(c);
    last = c->time.total();
  }
  return chosen;
}

// Step 3 there: what is faster for more money.
std::string faster_table(const OfferedAdvice& a, const Terminal& terminal) {
  if (!a.answer.best) return "";
  const Words& words = terminal.words;
  const RentCandidate& best = a.answer.candidates[*a.answer.best];
  TextTable table({words("3 then more hardware"), words("GPUs"), words("hours"), a.question.currency, words("speed-up"),
                   words("money")});
  const std::vector<const RentCandidate*> faster = faster_ones(a);
  for (const RentCandidate* c : faster) {
    table.add({{printable(words(rented(a.question, *c)))},
               {fmt::format("{}", c->gpus)},
               {rent_hours(c->time.total())},
               {money(c->money)},
               {fmt::format("{:.2f} x", best.time.total() / c->time.total())},
               {best.money > 0 ? fmt::format("{:.2f} x", c->money / best.money) : ""}});
  }
  return faster.empty() ? "" : "\n" + table.text(terminal);
}

std::string offered_table(const OfferedAdvice& a, const Terminal& terminal) {
  std::string text = kinds_table(a, terminal);
  if (a.free) text += free_table(*a.free, terminal);
  return text + faster_table(a, terminal);
}

}  // namespace

Message kind_in_words(OfferedAdvice::Kind kind) {
  switch (kind) {
    case OfferedAdvice::Kind::one_card:
      return message("one card");
    case OfferedAdvice::Kind::several_cards:
      return message("several in a machine");
    case OfferedAdvice::Kind::cluster:
      return message("a cluster");
  }
  return {};
}

Message advice_in_words(const Advice& a) {
  if (!a.recommended) {
    return message("It does not fit on {}, whatever the plan: take GPUs with more memory or more of them",
                   machine_of(a, a.sizes.back().gpus));
  }
  const Advice::Size& size = a.sizes[*a.recommended];
  const Advice::Answer& answer = *size.answer();
  const Message step = size.gpus == 1                                 ? message("One card is enough")
                       : size.gpus <= a.subject.cluster.gpus_per_node ? message("It takes several cards")
                                                                      : message("It takes a cluster");
  Message said = message("{}: {}, {} a step", step, machine_of(a, size.gpus), duration(answer.outcome.step_time));
  if (answer.seconds) said = message("{}, {} for the job", said, span_of_time(*answer.seconds));
  if (!size.changes.empty()) said = message("{}; it fits with {}", said, listed(size.changes));
  said = with_free_changes(said, size);
  if (size.together && size.together->seconds) said = message("{} ({})", said, span_of_time(*size.together->seconds));
  return a.meets_deadline ? said : message("{}; the deadline is missed all the same", said);
}

Message advice_in_words(const OfferedAdvice& a) {
  if (!a.answer.best) return rent_verdict(a.question, a.answer);
  const RentCandidate& best = a.answer.candidates[*a.answer.best];
  const OfferedAdvice::Kind kind = OfferedAdvice::kind_of(best);
  const bool fewer_do = std::any_of(a.steps.begin(), a.steps.end(), [&](const OfferedAdvice::Step& step) {
    return step.kind < kind && step.cheapest && a.answer.candidates[*step.cheapest].answers();
  });
  const bool one = kind == OfferedAdvice::Kind::one_card, several = kind == OfferedAdvice::Kind::several_cards;
  const Message step = one        ? message("One card is enough")
                       : fewer_do ? message("More cards than it takes are the better buy")
                       : several  ? message("It takes several cards")
                                  : message("It takes a cluster");
  const Message said =
      message("{}: rent {}, the job is done {}", step, rented(a.question, best), takes(a.question, best));
  return a.free ? with_free_changes(said, *a.free) : said;
}

std::string advice_table(const std::string& title, std::span<const AdvisedCase> cases, const Terminal& terminal) {
  const Words& words = terminal.words;
  std::string text =
      title.empty() ? "" : styled(wrapped(printable(title), terminal.width, 2), Style::bold, terminal) + "\n";
  const auto say = [&](const Message& said, bool good) {
    text += (text.empty() ? "" : "\n") +
            styled(wrapped(printable(words(said)), terminal.width, 2), good ? Style::good : Style::bad, terminal) +
            "\n";
  };
  std::vector<const Case*> subjects;
  for (const AdvisedCase& c : cases) {
    const auto named = [&](const Message& said) { return c.name.empty() ? said : message("{}: {}", c.name, said); };
    if (c.on_machine) {
      const Advice& a = *c.on_machine;
      subjects.push_back(&a.subject);
      say(named(advice_in_words(a)), a.recommended && a.meets_deadline);
      if (!a.complete) text += words("stopped before the end: what was not looked at may be better") + "\n";
      text += "\n" + sizes_table(a, terminal);
      if (a.recommended) text += free_table(a.sizes[*a.recommended], terminal);
      text += hardware_step(a, terminal);
    }
    if (c.offered) {
      const OfferedAdvice& a = *c.offered;
      const Message said = advice_in_words(a);
      say(c.on_machine ? message("What would: {}", said) : named(said), a.answer.best.has_value());
      if (!a.answer.complete) text += words("stopped before the end: what was not looked at may be better") + "\n";
      text += "\n" + offered_table(a, terminal);
      if (!c.on_machine) text += "\n" + rent_understood(a.question, terminal);
    }
  }
  return text + as_understood(subjects, Plans::looked_for, terminal);
}

}  // namespace foretrain::report
