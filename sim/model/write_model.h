#pragma once

#include "sim/config/tree.h"
#include "sim/model/model.h"

namespace foretrain {

// A model as the map of a scenario's `model`, which read_model() reads as the same model.
config::Node write_model(const Model& model);

}  // namespace foretrain
