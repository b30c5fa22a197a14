#pragma once

#include <string>

#include "sim/analysis/case_report.h"
#include "sim/report/words.h"

namespace foretrain::report {

// "6.17 to 8.62 s": where nine in ten such runs are.
std::string range_of(const ErrorBar& bar, const Words& words);

// That range of a case, how far it is to be trusted, and the measured run that says so first.
std::string certainty_of(const std::string& name, const ErrorBar& bar, const Words& words);

}  // namespace foretrain::report
