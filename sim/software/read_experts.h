#pragma once

#include "sim/config/reader.h"
#include "sim/software/software.h"

namespace foretrain {

// The profile keys `experts`, over what the profile already holds, and `expert_variants`, each of which is written as
// changes to `experts` and which replace inherited ones.
void read_expert_habits(config::MapReader& profile, Software& software, Diagnostics& diagnostics);

// Takes the habits of the first variant that `version` mentions, if any. `version`: in lower case.
void choose_expert_variant(Software& software, std::string_view version);

// "all-to-all", "two-level", "all-gather"
const char* to_string(Software::Experts::Dispatch dispatch);

}  // namespace foretrain
