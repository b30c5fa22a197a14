#pragma once

#include <functional>

#include "sim/cli/progress.h"
#include "sim/planner/planner.h"

namespace foretrain::cli {

// Shows on the line how far a search for plans is. The line must outlive it.
std::function<void(const SearchProgress&)> shown_on(ProgressLine& line, const report::Words& words);

// Shows on the line at which size a search over numbers of GPUs is, and its share from 0 to 1. The line must outlive
// it.
std::function<void(int, double)> sizes_shown_on(ProgressLine& line, const report::Words& words);

// Warns that an interrupt came before the case's turn.
void warn_of_no_turn(const Case& c, Diagnostics& diagnostics);

}  // namespace foretrain::cli
