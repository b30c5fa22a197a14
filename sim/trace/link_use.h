#pragma once

#include <string>
#include <vector>

#include "sim/workload/step.h"

namespace foretrain::trace {

// What a link carries over the step, bytes per second from a moment on. One link stands for all that cannot differ.
struct LinkUse {
  std::string name;  // "nvlink of stage 3: dp"
  double capacity = 0;
  struct Moment {
    Time at;
    double rate;
  };
  std::vector<Moment> moments;
};

// Of every link that carries something, by simulating the step once more. Collectives that passes contract are not on
// the links (they share them with nothing).
std::vector<LinkUse> link_use(const Step& step);

}  // namespace foretrain::trace
