#pragma once

#include <string>

#include "sim/calibration/calibrate.h"

namespace foretrain::report {

// {"rows", "cards", "inherited": [...], "figures": [{"file", "figure", "values", "origin", "fitted", "rows",
// "condition", "median_error", "p90_error", "bias", "at_bound", "without_data", "kernels", "sustained", "source"}]}.
// What rows say is there only where there are rows. And "collectives": {"runs", "points", "mean_error", "median_error",
// "fitted_mean_error", "fitted_median_error", "constants": [{"name", "value", "fitted", "points"}]}, "hosts": [{"name",
// "median", "lowest", "highest", "rows", "in_use"}].
std::string calibration_json(const Calibration& calibration);

}  // namespace foretrain::report
