#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/config/tree.h"

namespace foretrain {

// The shape that a config.json of Hugging Face describes, in the keys of a scenario's `model`; every value keeps its
// place in the file. `config` is the parsed file (JSON is YAML). Keys that do not shape a step are passed over. Known
// is every family in hf_families(); another `model_type`, a missing key, or a variant that is not simulated is
// reported, and nullopt returned.
std::optional<config::Node> model_of_hf_config(const config::Node& config, Diagnostics& diagnostics);

// The known values of `model_type`.
std::vector<std::string> hf_families();

}  // namespace foretrain
