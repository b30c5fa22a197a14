#pragma once

#include "sim/config/reader.h"
#include "sim/software/software.h"

namespace foretrain {

// The profile keys `offers`, over what the profile already holds, and `offer_variants`, each of which is written as
// changes to `offers`. Those of another profile are not inherited.
void read_offers(config::MapReader& profile, Software& software, Diagnostics& diagnostics);

// Takes what the first variant that `version` mentions offers, if any. `version`: in lower case.
void choose_offer_variant(Software& software, std::string_view version);

}  // namespace foretrain
