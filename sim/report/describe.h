#pragma once

#include <string>
#include <utility>
#include <vector>

#include "sim/analysis/case_report.h"

namespace foretrain::report {

// A case as it was understood, in the words of a scenario: (what, description) for model, machine, training, plan and
// software.
std::vector<std::pair<std::string, std::string>> describe(const Case& subject);

// As written in a scenario: "none", "selective", "full".
std::string name_of(Recompute::Mode mode);

std::string name_of(ErrorBar::Confidence confidence);  // "high", "medium", "low"

}  // namespace foretrain::report
