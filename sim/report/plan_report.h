#pragma once

#include <span>
#include <string>

#include "sim/planner/planner.h"
#include "sim/report/terminal.h"

namespace foretrain::report {

// The best plans for people: the space, how it was cut down and how fast, each plan beside the best, what it loses to
// it, where the plan that was compared with them stands, and the plan that would be faster if there were more memory.
std::string plans_table(const std::string& title, std::span<const PlanAnswer> answers, int threads,
                        const Terminal& terminal);

// The same for programs: every plan as `run` reports a case. Does not depend on how long the search took.
std::string plans_json(const std::string& title, std::span<const PlanAnswer> answers);

}  // namespace foretrain::report
