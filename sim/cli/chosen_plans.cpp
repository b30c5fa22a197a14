#include "sim/cli/chosen_plans.h"

#include "sim/config/quote.h"
#include "sim/planner/planner.h"
#include "sim/report/describe.h"

namespace foretrain::cli {

void choose_plans(Scenario& scenario, const Environment& environment, int threads, Diagnostics& diagnostics) {
  for (Case& c : scenario.cases) {
    if (!c.open_plan) continue;
    const auto answer = find_plans(c, environment, {.top = 1, .threads = threads}, diagnostics);
    if (!answer) continue;
    if (answer->best.empty() && !answer->nearest_miss) {
      diagnostics.error(c.position, message("no plan of {} can be simulated", config::in_quotes(c.name)));
      continue;
    }
    c.plan = answer->best.empty() ? answer->nearest_miss->plan : answer->best.front().report.subject.plan;
    c.open_plan.reset();
    c.assumptions.push_back(message("plan: auto is the {} of {} legal plans: {}",
                                    answer->best.empty() ? message("one that lacks least memory") : message("fastest"),
                                    answer->counts.legal, report::describe_plan(c)));
  }
}

}  // namespace foretrain::cli
