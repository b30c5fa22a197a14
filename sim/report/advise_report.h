#pragma once

#include <span>
#include <string>

#include "sim/planner/advise.h"
#include "sim/report/terminal.h"

namespace foretrain::report {

// Advice in three steps, for people and for programs.
std::string advice_table(const std::string& title, std::span<const Advice> cases, const Terminal& terminal);
std::string advice_json(const std::string& title, std::span<const Advice> cases);
// The advice in one sentence.
Message advice_in_words(const Advice& advice);

}  // namespace foretrain::report
