#pragma once

#include <span>
#include <string>
#include <vector>

#include "sim/planner/scale.h"
#include "sim/report/terminal.h"

namespace foretrain::report {

struct ScaledCase {
  Case subject;
  std::vector<ScalePoint> points;
};

// Scaling curves for people, one table a case, and how the cases were understood.
std::string scale_table(const std::string& title, std::span<const ScaledCase> cases, bool weak,
                        const Terminal& terminal);
// And for programs: every point as `run` reports a case.
std::string scale_json(const std::string& title, std::span<const ScaledCase> cases, bool weak);

}  // namespace foretrain::report
