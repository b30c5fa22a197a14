#pragma once

#include <optional>
#include <vector>

#include "sim/scenario/flag_values.h"
#include "sim/scenario/variations.h"

namespace foretrain {

// The most cases that variations may make.
inline constexpr std::size_t kMostVariedCases = 1'000;

// The document of a scenario with the values laid over every case, and every case taken once for every combination of
// the variations. Without a document (nullptr) the values alone describe the one case. Positions of values are their
// flags, so that messages of the reader name them. "--gpu a100-40g:8" and "--node dgx-a100-80g:2" say how many as well.
// Cases made by variations are named after their values. Everything wrong is reported; nullopt then.
std::optional<config::Node> with_flags(const config::Node* document, const std::vector<FlagValue>& values,
                                       const std::vector<Variation>& variations, Diagnostics& diagnostics);

// The document of a question of what to rent with the values laid over its job, which has no machine. Without a
// document the values alone are the job.
std::optional<config::Node> job_with_flags(const config::Node* document, const std::vector<FlagValue>& values,
                                           Diagnostics& diagnostics);

}  // namespace foretrain
