#pragma once

#include <string>
#include <utility>
#include <vector>

#include "sim/analysis/case_report.h"

namespace foretrain::report {

// A case as it was understood, in the words of a scenario: (what, description) for model, machine, training, plan and
// software.
std::vector<std::pair<std::string, std::string>> describe(const Case& subject);

// Its plan alone, and how many micro-batches a step takes.
std::string describe_plan(const Case& subject);

// What a part of a step is called: "pipeline bubble".
std::string in_words(Cause cause);

// As written in a scenario: "none", "selective", "full".
std::string name_of(Recompute::Mode mode);

std::string name_of(ErrorBar::Confidence confidence);  // "high", "medium", "low"

}  // namespace foretrain::report
