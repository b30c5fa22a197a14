#pragma once

#include "sim/config/tree.h"
#include "sim/scenario/scenario.h"

namespace foretrain {

// The document that a scenario was read from with everything that was assumed written down: catalogue names instead of
// aliases, models of other files in place, defaults of the training, the machine and the plan. Read again it gives the
// same cases. What its cases share is in `base`.
config::Node understood(const config::Node& document, const Scenario& scenario);

// It as text, the sentences about what was assumed before it as comments.
std::string understood_text(const config::Node& document, const Scenario& scenario);

// The text of a new scenario: the same, with what every key means beside it.
std::string commented_text(const config::Node& document, const Scenario& scenario);

}  // namespace foretrain
