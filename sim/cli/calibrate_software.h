#pragma once

#include <string>

#include "sim/hardware/gpu.h"
#include "sim/report/words.h"

namespace foretrain::cli {

// `calibrate --software`: fits what whole published steps make of kernel rates and framework profiles.
struct SoftwareFitOptions {
  std::string out;         // folder to write steps.yaml to; empty: only say
  bool check = false;      // fail unless steps.yaml is what the runs give
  bool leave_out = false;  // also fit without each source in turn, and say how far off it is then
  int threads = 1;
  report::Words words;
};
int calibrate_software(const SoftwareFitOptions& options, const DataFolder& data);

}  // namespace foretrain::cli
