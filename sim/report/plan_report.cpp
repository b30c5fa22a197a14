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

Message described(const Case& c) {
  const Message plan = describe_plan(c);
  if (c.plan.pp == 1 || c.plan.order == Plan{}.order) return plan;
  return message("{}, order {}", plan, fmt::join(c.plan.order, "-"));
}

std::string whole(std::int64_t count) { return grouped(static_cast<double>(count)); }

Message space_line(const PlanAnswer& answer, const double* seconds, int threads) {
  const SearchCounts& c = answer.counts;
  Message line = message("{} legal plans: {} do not fit in memory, {} cannot be among the best, {} simulated",
                         whole(c.legal), whole(c.beyond_memory), whole(c.too_slow), whole(c.simulated));
  if (c.did_not_fit > 0) line = message("{} ({} of them do not fit)", line, whole(c.did_not_fit));
  if (seconds == nullptr || *seconds <= 0) return line;
  return message("{}; {} s, {} plans/s judged, {} plans/s and core simulated", line, significant(*seconds, 3),
                 grouped(static_cast<double>(c.legal) / *seconds),
                 significant(static_cast<double>(c.simulated) / *seconds / threads, 3));
}

}  // namespace

std::string plans_json(const std::string& title, std::span<const PlanAnswer> answers) {
  Json json{{"schema", 1}, {"title", title}, {"cases", Json::array()}};
  for (const PlanAnswer& answer : answers) json["cases"].push_back(plan_answer_json(answer));
  return dumped(json);
}

std::string plans_table(const std::string& title, std::span<const PlanAnswer> answers, std::span<const double> seconds,
                        int threads, const Terminal& terminal) {
  const Words& words = terminal.words;
  std::string text = title.empty() ? "" : styled(printable(title), Style::bold, terminal) + "\n";
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const PlanAnswer& answer = answers[i];
    text += "\n" + styled(printable(answer.subject.name), Style::bold, terminal) + "\n";
    const double* took = i < seconds.size() ? &seconds[i] : nullptr;
    text += wrapped(words(space_line(answer, took, threads)), terminal.width, 2) + "\n";
    if (!answer.complete) text += words("stopped before the end: a faster plan may exist") + "\n";
    if (answer.best.empty()) {
      text += styled(words("no plan fits"), Style::bad, terminal) + "\n";
    } else {
      TextTable table({words("plan"), words("step time"), words("tokens/s"), words("MFU"), words("memory GiB"),
                       words("behind"), words("because of")});
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
             {ranked.slower_by ? words("{} more {}", duration(ranked.more), in_words(*ranked.slower_by)) : ""}});
      }
      text += table.text(terminal);
      number = 0;
      for (const RankedPlan& ranked : answer.best) {
        text += wrapped(fmt::format("{}  {}", ++number, words(described(ranked.report.subject))), terminal.width, 3) + "\n";
      }
    }
    if (const auto& miss = answer.nearest_miss) {
      Case missed = answer.subject;
      missed.plan = miss->plan;
      text += wrapped(words("with {} GiB more on each GPU: {}, {} a step", gib(miss->missing), described(missed),
                            duration(miss->step_time)),
                      terminal.width, 2) +
              "\n";
    }
  }
  return text;
}

}  // namespace foretrain::report
