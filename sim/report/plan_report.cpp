#include "sim/report/plan_report.h"

#include <fmt/format.h>

#include <cmath>

#include "sim/report/describe.h"
#include "sim/report/figures.h"
#include "sim/report/json_support.h"
#include "sim/report/run_report.h"

namespace foretrain::report {
namespace {

Json counts_json(const SearchCounts& counts) {
  return {{"plans", counts.legal},
          {"beyond_memory", counts.beyond_memory},
          {"too_slow", counts.too_slow},
          {"simulated", counts.simulated},
          {"did_not_fit", counts.did_not_fit}};
}

Json plan_answer_json(const PlanAnswer& answer) {
  Json json{{"name", answer.subject.name},
            {"complete", answer.complete},
            {"space", counts_json(answer.counts)},
            {"plans", Json::array()}};
  for (const RankedPlan& ranked : answer.best) {
    Json plan = case_json(ranked.report);
    plan["slower_by"] = ranked.slower_by ? Json(to_string(*ranked.slower_by)) : Json(nullptr);
    plan["slower_by_s"] = ranked.slower_by ? Json(exact_seconds(ranked.more)) : Json(nullptr);
    json["plans"].push_back(std::move(plan));
  }
  const auto& miss = answer.nearest_miss;
  Case missed = answer.subject;
  if (miss) missed.plan = miss->plan;
  json["nearest_infeasible"] = miss ? Json{{"plan", plan_json(missed)},
                                           {"missing_bytes", static_cast<std::int64_t>(std::ceil(miss->missing.value))},
                                           {"step_time_s", exact_seconds(miss->step_time)}}
                                    : Json(nullptr);
  return json;
}

std::string described(const Case& c) {
  std::string text = describe_plan(c);
  if (c.plan.pp > 1 && c.plan.order != Plan{}.order) text += fmt::format(", order {}", fmt::join(c.plan.order, "-"));
  return text;
}

std::string space_line(const PlanAnswer& answer, const double* seconds, int threads) {
  const SearchCounts& c = answer.counts;
  std::string text = fmt::format("{} legal plans: {} do not fit in memory, {} cannot be among the best, {} simulated",
                                 grouped(static_cast<double>(c.legal)), grouped(static_cast<double>(c.beyond_memory)),
                                 grouped(static_cast<double>(c.too_slow)), grouped(static_cast<double>(c.simulated)));
  if (c.did_not_fit > 0) text += fmt::format(" ({} of them do not fit)", grouped(static_cast<double>(c.did_not_fit)));
  if (seconds != nullptr && *seconds > 0) {
    text += fmt::format("; {} s, {} plans/s judged, {} plans/s and core simulated", significant(*seconds, 3),
                        grouped(static_cast<double>(c.legal) / *seconds),
                        significant(static_cast<double>(c.simulated) / *seconds / threads, 3));
  }
  return text;
}

}  // namespace

std::string plans_json(const std::string& title, std::span<const PlanAnswer> answers) {
  Json json{{"schema", 1}, {"title", title}, {"cases", Json::array()}};
  for (const PlanAnswer& answer : answers) json["cases"].push_back(plan_answer_json(answer));
  return dumped(json);
}

std::string plans_table(const std::string& title, std::span<const PlanAnswer> answers, std::span<const double> seconds,
                        int threads, const Terminal& terminal) {
  std::string text = styled(printable(title), Style::bold, terminal) + "\n";
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const PlanAnswer& answer = answers[i];
    text += "\n" + styled(printable(answer.subject.name), Style::bold, terminal) + "\n";
    const double* took = i < seconds.size() ? &seconds[i] : nullptr;
    text += wrapped(space_line(answer, took, threads), terminal.width, 2) + "\n";
    if (!answer.complete) text += "stopped before the end: a faster plan may exist\n";
    if (answer.best.empty()) {
      text += styled("no plan fits", Style::bad, terminal) + "\n";
    } else {
      TextTable table({"plan", "step time", "tokens/s", "MFU", "memory GiB", "behind", "because of"});
      table.align_left(6);
      int number = 0;
      const double best = answer.best.front().report.step_time.seconds();
      for (const RankedPlan& ranked : answer.best) {
        const CaseReport& r = ranked.report;
        table.add(
            {{fmt::format("{}", ++number)},
             {duration(r.step_time)},
             {grouped(r.tokens_per_second)},
             {percent(r.mfu)},
             {fmt::format("{} / {}", gib(r.memory[r.fullest].needed), gib(r.capacity))},
             {number == 1 ? "" : signed_percent(r.step_time.seconds() / best - 1.0)},
             {ranked.slower_by ? fmt::format("{} more {}", duration(ranked.more), in_words(*ranked.slower_by)) : ""}});
      }
      text += table.text(terminal);
      number = 0;
      for (const RankedPlan& ranked : answer.best) {
        text += wrapped(fmt::format("{}  {}", ++number, described(ranked.report.subject)), terminal.width, 3) + "\n";
      }
    }
    if (const auto& miss = answer.nearest_miss) {
      Case missed = answer.subject;
      missed.plan = miss->plan;
      text += wrapped(fmt::format("with {} GiB more on each GPU: {}, {} a step", gib(miss->missing), described(missed),
                                  duration(miss->step_time)),
                      terminal.width, 2) +
              "\n";
    }
  }
  return text;
}

}  // namespace foretrain::report
