#pragma once

#include <string>

#include "sim/calibration/validate.h"
#include "sim/report/run_report.h"
#include "sim/report/terminal.h"

namespace foretrain::report {

// The answer for people: the verdict, the cases side by side, where each step's time goes, what holds the memory, what
// faster hardware would buy, how the question was understood. Warnings of the
// scenario itself are left to whoever read it. Memory is in GiB (2^30 bytes).
std::string run_table(const RunReport& report, const Terminal& terminal);

// Predictions against measurements: summary, by source, by case. Of more than forty cases only the worst are listed,
// unless all are asked for.
std::string validation_table(const Validation& validation, const Terminal& terminal, bool every_case = false);

}  // namespace foretrain::report
