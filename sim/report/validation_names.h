#pragma once

#include <string>

#include "sim/calibration/validate.h"

namespace foretrain::report {

// A measured file by its name without folder and extension.
std::string source_name(const std::string& path);
const char* name_of(Measured::MemoryKind kind);

}  // namespace foretrain::report
