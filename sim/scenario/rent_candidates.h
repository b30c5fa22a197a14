#pragma once

#include <vector>

#include "sim/scenario/rent_question.h"

namespace foretrain {

inline constexpr int kMostRentedGpus = 4096;  // of one candidate

struct RentSizes {
  std::vector<int> machines;  // as asked for; empty: 1, 2, 4 ... as far as `most_gpus` and the offer's network go
  int most_gpus = 64;
};

// Fills in the question's cases and candidates: `base` on so many machines of every offer. It is an error if not one
// offer is left.
void list_candidates(RentQuestion& question, const config::Node& base, const RentSizes& sizes, const DataFolder& data,
                     const SourcePosition& position, Diagnostics& diagnostics);

}  // namespace foretrain
