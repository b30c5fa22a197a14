#pragma once

#include <string>

#include "sim/analysis/memory_ladder.h"
#include "sim/report/terminal.h"

namespace foretrain::report {

// A ladder for people: a row a way to use the model, its parts, and the smallest GPUs that hold it.
std::string memory_table(const Ladder& ladder, const Terminal& terminal);
// And for programs: every part in bytes, and all GPUs of the catalogue that hold it.
std::string memory_json(const Ladder& ladder);

}  // namespace foretrain::report
