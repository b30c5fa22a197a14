#pragma once

#include "sim/analysis/case_report.h"
#include "sim/cli/command.h"

namespace foretrain::cli {

// Gives cases with `plan: auto` the fastest plan that fits, or the nearest that does not. Ctrl-C ends a search with the
// best so far.
void choose_plans(Scenario& scenario, const Environment& environment, const CommonOptions& options,
                  Diagnostics& diagnostics);

}  // namespace foretrain::cli
