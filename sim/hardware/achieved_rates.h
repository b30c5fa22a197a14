#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "sim/hardware/gpu.h"

namespace foretrain {

// Loads hardware/calibrated/<file>.yaml for a GPU whose datasheet has been read. The SM share of collectives follows
// from the file's channel count and the GPU's SMs; a GPU that the file was not measured on gets `inherited_from`.
// Errors: a value out of range, a value without a source, a precision the GPU has but the file does not know.
std::optional<AchievedRates> load_achieved_rates(const DataFolder& data, std::string_view file, const Gpu& gpu,
                                                 SourcePosition asked_at, Diagnostics& diagnostics);

}  // namespace foretrain
