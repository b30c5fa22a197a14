#pragma once

#include <functional>
#include <string>
#include <vector>

#include "sim/calibration/fit_collectives.h"

namespace foretrain {

// A constant of collectives.yaml or links.yaml that runs can tell: its name, and where it sits.
struct CollectivePlace {
  std::string name;
  std::function<double&(CollectiveModel&)> at;
  double unit = 1.0;  // of the file, in that of the struct
};

// All of them; of the constants by generation those that `model` has.
std::vector<CollectivePlace> collective_places(const CollectiveModel& model);

}  // namespace foretrain
