#pragma once

#include "sim/analysis/case_report.h"

namespace foretrain::cli {

// Gives cases with `plan: auto` the fastest plan that fits, or the nearest that does not.
void choose_plans(Scenario& scenario, const Environment& environment, int threads, Diagnostics& diagnostics);

}  // namespace foretrain::cli
