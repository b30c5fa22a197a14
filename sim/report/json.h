#pragma once

#include <string>

#include "sim/calibration/validate.h"
#include "sim/report/run_report.h"

namespace foretrain::report {

// JSON of an answer: the project's contract with programs. Keys are only ever added; `schema` counts changes that
// are not additions. Times are seconds (`*_s`) and whole picoseconds (`*_ps`; those of a breakdown add up to
// step_time_ps exactly), memory is bytes, rates are per second. A figure that is not known is null. `plan` has the
// form of a scenario's plan. Ends with a newline.
std::string run_json(const RunReport& report);

// JSON of predictions against measurements. Errors are predicted / measured - 1.
std::string validation_json(const Validation& validation);

}  // namespace foretrain::report
