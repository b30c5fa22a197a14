#include "sim/cli/chosen_plans.h"

#include <algorithm>

#include "sim/cli/search_progress.h"
#include "sim/config/quote.h"
#include "sim/report/describe.h"

namespace foretrain::cli {

namespace {

Message how_chosen(const PlanAnswer& answer) {
  if (answer.best.empty()) return message("one that lacks least memory");
  return answer.complete ? message("fastest") : message("fastest so far");
}

}  // namespace

void choose_plans(Scenario& scenario, const Environment& environment, const CommonOptions& options,
                  Diagnostics& diagnostics) {
  const bool any = std::any_of(scenario.cases.begin(), scenario.cases.end(), [](const Case& c) { return c.open_plan; });
  if (!any) return;
  PlannerOptions search{.top = 1, .threads = threads_of(options), .stop = &stop_on_interrupt()};
  for (Case& c : scenario.cases) {
    if (!c.open_plan) continue;
    ProgressLine line(options);
    search.progress = shown_on(line, options.words);
    const auto answer = find_plans(c, environment, search, diagnostics);
    if (!answer) continue;
    if (answer->best.empty() && !answer->nearest_miss) {
      diagnostics.error(c.position, answer->complete
                                        ? message("no plan of {} can be simulated", config::in_quotes(c.name))
                                        : message("the search for a plan of {} was stopped before one was found",
                                                  config::in_quotes(c.name)));
      continue;
    }
    c.plan = answer->best.empty() ? answer->nearest_miss->plan : answer->best.front().report.subject.plan;
    c.open_plan.reset();
    c.assumptions.push_back(message("plan: auto is the {} of {} legal plans: {}", how_chosen(*answer),
                                    answer->counts.legal, report::describe_plan(c)));
  }
}

}  // namespace foretrain::cli
