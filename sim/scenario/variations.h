#pragma once

#include <string>
#include <vector>

#include "sim/config/tree.h"

namespace foretrain {

// A field that takes several values in turn: "zero=1,2,3", "gpu=a100-40g:8,a100-80g:4", "cluster.host.cores=16,64". It
// is named by its flag without dashes, or by its path.
using Variation = std::string;

// One of its values: what it lays over a case, and what it adds to the name.
struct Variant {
  config::Node overlay;
  std::string label;
  bool names_machine = false;
};

// The values of a variation; none after reporting what is wrong with it.
std::vector<Variant> read_variation(const Variation& text, Diagnostics& diagnostics);

}  // namespace foretrain
