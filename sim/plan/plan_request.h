#pragma once

#include "sim/plan/plan.h"

namespace foretrain {

// A plan as a scenario would write it with every field given: what a change of one field is made to before
// resolve_plan() says whether the changed plan is legal. Resolving it unchanged gives the same plan.
PlanRequest as_request(const Plan& plan, const Model& model);

}  // namespace foretrain
