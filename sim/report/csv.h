#pragma once

#include <string>

#include "sim/calibration/validate.h"
#include "sim/report/run_report.h"

namespace foretrain::report {

// Comma-separated values: a header, then one row a case, with the names, units and digits of the JSON. Quoted as in
// RFC 4180 (fields with a comma, quote or line break, quotes doubled), but lines end with a line feed only.
std::string run_csv(const RunReport& report);
std::string validation_csv(const Validation& validation);

// One field, quoted if it must be.
std::string csv_field(const std::string& text);

}  // namespace foretrain::report
