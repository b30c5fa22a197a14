#pragma once

#include <string>

#include "sim/calibration/calibrate.h"
#include "sim/report/terminal.h"

namespace foretrain::report {

// For people: one line a figure that rows speak of (`every`: or that they do not), the collectives, the constants.
// Names of figures and constants are those of the files.
std::string calibration_table(const Calibration& calibration, bool every, const Terminal& terminal);
std::string calibration_csv(const Calibration& calibration);

// {"rows", "cards", "inherited": [...], "figures": [{"file", "figure", "values", "origin", "fitted", "rows",
// "condition", "median_error", "p90_error", "bias", "at_bound", "without_data", "kernels", "sustained", "source"}]}.
// What rows say is there only where there are rows. And "collectives": {"runs", "points", "mean_error", "median_error",
// "fitted_mean_error", "fitted_median_error", "constants": [{"name", "value", "fitted", "points"}]}, "hosts": [{"name",
// "median", "lowest", "highest", "rows", "in_use"}].
std::string calibration_json(const Calibration& calibration);

// Where a figure comes from: "decided", "kernels", "inherited" ...
const char* origin_of(CalibrationRule::Kind kind);

}  // namespace foretrain::report
