#pragma once

#include <string>

#include "sim/analysis/diagnose.h"
#include "sim/report/terminal.h"

namespace foretrain::report {

// Whether a run is normal, what of it is off and which known causes fit, for people and for programs.
std::string diagnosis_table(const Diagnosis& diagnosis, const Terminal& terminal);
std::string diagnosis_json(const Diagnosis& diagnosis);

}  // namespace foretrain::report
