#pragma once

#include "sim/report/json_support.h"

namespace foretrain::page {

// What pictures of a case need beside its figures: `pipeline`, `roofline` and `topology`.
// Simulates nothing: it looks at the schedule, the machine and the kernels again. `slices`: of the pipeline's picture,
// at most.
report::Json case_view(const CaseReport& report, const Environment& environment, std::size_t slices);

}  // namespace foretrain::page
