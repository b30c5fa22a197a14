#pragma once

#include <functional>

#include "sim/cli/progress.h"
#include "sim/planner/planner.h"

namespace foretrain::cli {

// Shows on the line how far a search for plans is. The line must outlive it.
std::function<void(const SearchProgress&)> shown_on(ProgressLine& line, const report::Words& words);

}  // namespace foretrain::cli
