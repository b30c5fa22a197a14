#include "sim/report/plan_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/report/certainty.h"
#include "sim/report/describe.h"
#include "sim/report/figures.h"
#include "sim/report/json_support.h"
#include "sim/report/run_report.h"
#include "sim/report/understood_text.h"

namespace foretrain::report {
namespace {

Json counts_json(const SearchCounts& counts) {
  return {{"plans", counts.legal},
          {"beyond_memory", counts.beyond_memory},
          {"too_slow", counts.too_slow},
          {"simulated", counts.simulated},
          {"did_not_fit", counts.did_not_fit}};
}

Json ranked_json(const RankedPlan& ranked) {
  Json plan = case_json(ranked.report);
  plan["slower_by"] = ranked.slower_by ? Json(to_string(*ranked.slower_by)) : Json(nullptr);
  plan["slower_by_s"] = ranked.slower_by ? Json(exact_seconds(ranked.more)) : Json(nullptr);
  plan["order_likelihood"] = or_null(ranked.order_right);
  return plan;
}

// Plans that may fit: the bounds on memory let them pass, and no simulation says otherwise.
std::int64_t may_fit(const SearchCounts& counts) { return counts.legal - counts.beyond_memory - counts.did_not_fit; }

Json own_json(const PlanAnswer& answer) {
  if (!answer.own) return nullptr;
  Json own = ranked_json(answer.own->plan);
  own["faster_plans"] = answer.own->faster;
  own["faster_plans_at_least"] = answer.own->at_least;
  own["faster_of_legal"] = static_cast<double>(answer.own->faster) / static_cast<double>(answer.counts.legal);
  own["faster_of_fitting"] = static_cast<double>(answer.own->faster) / static_cast<double>(may_fit(answer.counts));
  return own;
}

Json plan_answer_json(const PlanAnswer& answer) {
  Json json{{"name", answer.subject.name},
            {"complete", answer.complete},
            {"memory_share", answer.memory_share},
            {"space", counts_json(answer.counts)},
            {"plans", Json::array()}};
  for (const RankedPlan& ranked : answer.best) json["plans"].push_back(ranked_json(ranked));
  json["own"] = own_json(answer);
  const auto& miss = answer.nearest_miss;
  Case missed = answer.subject;
  if (miss) missed.plan = miss->plan;
  json["nearest_infeasible"] = miss ? Json{{"plan", plan_json(missed)},
                                           {"missing_bytes", static_cast<std::int64_t>(std::ceil(miss->missing.value))},
                                           {"step_time_s", exact_seconds(miss->step_time)}}
                                    : Json(nullptr);
  return json;
}

Message described(const Case& c) {
  const Message plan = describe_plan(c);
  if (c.plan.pp == 1 || c.plan.order == Plan{}.order) return plan;
  return message("{}, order {}", plan, to_string(c.plan.order));
}

std::string whole(std::int64_t count) { return grouped(static_cast<double>(count)); }

double per_second(std::int64_t plans, double seconds, int threads) {
  return static_cast<double>(plans) / std::max(seconds, 1e-9) / threads;
}

Message space_line(const PlanAnswer& answer, int threads) {
  const SearchCounts& c = answer.counts;
  Message line = message("{} legal plans: {} do not fit in memory, {} cannot be among the best, {} simulated",
                         whole(c.legal), whole(c.beyond_memory), whole(c.too_slow), whole(c.simulated));
  if (c.did_not_fit > 0) line = message("{} ({} of them do not fit)", line, whole(c.did_not_fit));
  const SearchSeconds& took = answer.seconds;
  return message("{}; {} s, a second and core judges {} plans or simulates {}", line,
                 significant(took.judging + took.simulating, 3), grouped(per_second(c.legal, took.judging, threads)),
                 significant(per_second(c.simulated, took.simulating, threads), 3));
}

// "a, b and 3 more ..." of the plan that was compared with the others.
Message own_line(const PlanAnswer& answer) {
  const CaseReport& own = answer.own->plan.report;
  Message line = message("your plan: {}: {} a step", described(own.subject), duration(own.step_time));
  if (!answer.best.empty()) {
    const double best = answer.best.front().report.step_time.seconds();
    line = message("{}, {} beside the best", line, signed_percent(own.step_time.seconds() / best - 1.0));
    if (answer.own->plan.slower_by) {
      line = message("{} ({} more {})", line, duration(answer.own->plan.more), in_words(*answer.own->plan.slower_by));
    }
  }
  const StagePeak& fullest = own.memory[own.fullest];
  if (!own.fits) {
    line = message("{}; it does not fit in memory", line);
  } else if (fullest.needed > fullest.capacity * answer.memory_share) {
    line = message("{}; it needs {} of the memory", line, percent(fullest.needed / fullest.capacity));
  }
  const std::int64_t faster = answer.own->faster;
  if (faster == 0) return message("{}; no plan that fits is faster", line);
  const auto share = [faster](std::int64_t of) {
    return percent(static_cast<double>(faster) / static_cast<double>(of));
  };
  if (answer.own->at_least) {
    return message("{}; more than {} that fit are faster, {} of the legal plans or more", line, whole(faster),
                   share(answer.counts.legal));
  }
  return message("{}; {} that fit are faster, {} of the legal plans and {} of those that may fit", line, whole(faster),
                 share(answer.counts.legal), share(may_fit(answer.counts)));
}

// "63 %" that the best plan is faster than this one.
std::string surely(const RankedPlan& ranked) {
  return ranked.order_right ? fmt::format("{:.0f} %", 100 * *ranked.order_right) : "";
}

// Plans from the first on whose order is little better than a guess.
std::size_t too_close_to_call(const PlanAnswer& answer) {
  constexpr double kGuess = 0.6;
  std::size_t count = 1;
  while (count < answer.best.size() && answer.best[count].order_right.value_or(1.0) < kGuess) ++count;
  return count;
}

std::string best_plans(const PlanAnswer& answer, const Terminal& terminal) {
  const Words& words = terminal.words;
  TextTable table({words("plan"), words("step time"), words("tokens/s"), words("MFU"), words("memory GiB"),
                   words("behind"), words("sure"), words("because of")});
  table.align_left(7);
  int number = 0;
  const double best = answer.best.front().report.step_time.seconds();
  for (const RankedPlan& ranked : answer.best) {
    const CaseReport& r = ranked.report;
    table.add({{fmt::format("{}", ++number)},
               {duration(r.step_time)},
               {grouped(r.tokens_per_second)},
               {percent(r.mfu)},
               {fmt::format("{} / {}", gib(r.memory[r.fullest].needed), gib(r.capacity))},
               {number == 1 ? "" : signed_percent(r.step_time.seconds() / best - 1.0)},
               {surely(ranked)},
               {ranked.slower_by ? words("{} more {}", duration(ranked.more), in_words(*ranked.slower_by)) : ""}});
  }
  std::string text = table.text(terminal);
  number = 0;
  for (const RankedPlan& ranked : answer.best) {
    text += wrapped(fmt::format("{}  {}", ++number, words(described(ranked.report.subject))), terminal.width, 3) + "\n";
  }
  if (const auto& bar = answer.best.front().report.error_bar) {
    text +=
        wrapped(words("sure: that plan 1 is the faster of the two. Nine in ten such runs are in the range of plan {}",
                      certainty_of("1", *bar, words)),
                terminal.width, 2) +
        "\n";
  }
  if (const std::size_t close = too_close_to_call(answer); close > 1) {
    text += wrapped(words("the first {} plans are too close to call: choose by memory, or by what is easiest to run",
                          close),
                    terminal.width, 2) +
            "\n";
  }
  return text;
}

}  // namespace

std::string plans_json(const std::string& title, std::span<const PlanAnswer> answers) {
  Json json{{"schema", 1}, {"title", title}, {"cases", Json::array()}};
  for (const PlanAnswer& answer : answers) json["cases"].push_back(plan_answer_json(answer));
  return dumped(json);
}

std::string plans_table(const std::string& title, std::span<const PlanAnswer> answers, int threads,
                        const Terminal& terminal) {
  const Words& words = terminal.words;
  std::string text = title.empty() ? "" : styled(printable(title), Style::bold, terminal) + "\n";
  for (const PlanAnswer& answer : answers) {
    text += "\n" + styled(printable(answer.subject.name), Style::bold, terminal) + "\n";
    text += wrapped(words(space_line(answer, threads)), terminal.width, 2) + "\n";
    if (answer.memory_share < 1.0) {
      text += wrapped(words("left out: what needs more than {} of the memory, where measured runs slow down or fail; "
                            "--max-memory says another limit",
                            percent(answer.memory_share)),
                      terminal.width, 2) +
              "\n";
    }
    if (!answer.complete) text += words("stopped before the end: a faster plan may exist") + "\n";
    if (answer.best.empty()) {
      const auto none = answer.complete ? words("no plan fits") : words("no plan was found that fits");
      text += styled(none, Style::bad, terminal) + "\n";
    } else {
      text += best_plans(answer, terminal);
    }
    if (answer.own) text += wrapped(words(own_line(answer)), terminal.width, 2) + "\n";
    if (const auto& miss = answer.nearest_miss) {
      Case missed = answer.subject;
      missed.plan = miss->plan;
      text += wrapped(words("with {} GiB more on each GPU: {}, {} a step", gib(miss->missing), described(missed),
                            duration(miss->step_time)),
                      terminal.width, 2) +
              "\n";
    }
  }
  std::vector<const Case*> subjects;
  std::vector<Said> warnings;
  for (const PlanAnswer& answer : answers) {
    subjects.push_back(&answer.subject);
    if (!answer.best.empty()) warnings.push_back({answer.subject.name, answer.best.front().report.warnings});
  }
  text += as_understood(subjects, Plans::looked_for, terminal);
  const std::string warned = sentences(message("warnings"), warnings, terminal);
  return warned.empty() ? text : text + "\n" + warned;
}

}  // namespace foretrain::report
