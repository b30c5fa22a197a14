#include "sim/report/advise_report.h"

#include <fmt/format.h>

#include <cmath>

#include "sim/report/describe.h"
#include "sim/report/figures.h"
#include "sim/report/json_support.h"
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

std::string free_table(const Advice& a, const Terminal& terminal) {
  if (!a.recommended) return "";
  const Words& words = terminal.words;
  const Advice::Size& size = a.sizes[*a.recommended];
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

}  // namespace

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
  if (size.together) {
    const Advice::Answer& all = *size.together;
    const std::string times =
        fmt::format("{:.2f}", answer.outcome.step_time.seconds() / all.outcome.step_time.seconds());
    said = size.helpful.size() == 1
               ? message("{}; {} makes it {} x faster at no cost", said, size.helpful.front(), times)
               : message("{}; {} make it {} x faster at no cost", said, listed(size.helpful), times);
    if (all.seconds) said = message("{} ({})", said, span_of_time(*all.seconds));
  }
  return a.meets_deadline ? said : message("{}; the deadline is missed all the same", said);
}

std::string advice_table(const std::string& title, std::span<const Advice> cases, const Terminal& terminal) {
  std::string text =
      title.empty() ? "" : styled(wrapped(printable(title), terminal.width, 2), Style::bold, terminal) + "\n";
  for (const Advice& a : cases) {
    const Style style = a.recommended && a.meets_deadline ? Style::good : Style::bad;
    text += (text.empty() ? "" : "\n") +
            styled(wrapped(printable(terminal.words("{}: {}", a.name, advice_in_words(a))), terminal.width, 2), style,
                   terminal) +
            "\n\n";
    text += sizes_table(a, terminal) + free_table(a, terminal) + hardware_step(a, terminal);
  }
  std::vector<const Case*> subjects;
  for (const Advice& a : cases) subjects.push_back(&a.subject);
  return text + as_understood(subjects, Plans::looked_for, terminal);
}

std::string advice_json(const std::string& title, std::span<const Advice> cases) {
  Json json{{"schema", 1}, {"title", title}, {"cases", Json::array()}};
  for (const Advice& a : cases) {
    Json sizes = Json::array();
    for (const Advice::Size& size : a.sizes) {
      Json free = Json::array();
      for (const Advice::Free& f : size.free) {
        free.push_back({{"change", f.name},
                        {"what", f.what.english()},
                        {"same_plan", outcome_json(f.same_plan)},
                        {"best_plan", f.best_plan ? outcome_json(*f.best_plan) : Json(nullptr)}});
      }
      sizes.push_back({{"gpus", size.gpus},
                       {"as_described", answer_json(size.best ? &*size.best : nullptr)},
                       {"missing_bytes", std::llround(size.missing.value)},
                       {"changes", english(size.changes)},
                       {"with_changes", answer_json(size.changed ? &*size.changed : nullptr)},
                       {"why_not", or_null(size.why_not.english())},
                       {"free", std::move(free)},
                       {"helpful", english(size.helpful)},
                       {"together", answer_json(size.together ? &*size.together : nullptr)}});
    }
    json["cases"].push_back({{"name", a.name},
                             {"advice", advice_in_words(a).english()},
                             {"gpus", a.recommended ? Json(a.sizes[*a.recommended].gpus) : Json(nullptr)},
                             {"meets_deadline", a.meets_deadline},
                             {"sizes", std::move(sizes)}});
  }
  return dumped(json);
}

}  // namespace foretrain::report
