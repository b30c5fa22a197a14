#pragma once

#include "sim/calibration/confidence.h"
#include "sim/cli/progress.h"
#include "sim/planner/rent.h"

namespace foretrain::cli {

// How machines are looked for: with error bars, saying how far it is on `line`, until Ctrl-C. `options`, `error_bars`
// and `line` must outlive it.
RentOptions renting(const CommonOptions& options, const ErrorBars& error_bars, ProgressLine& line);

}  // namespace foretrain::cli
