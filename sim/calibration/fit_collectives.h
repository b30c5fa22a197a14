#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/cost/collective.h"

namespace foretrain {

// One run of a benchmark of collectives on one machine.
struct CollectiveRun {
  // How it was driven. A process a GPU, as in training; one thread that launches all GPUs takes at least 4.6 us a GPU;
  // timed around torch.distributed it is 9 us more and at least 47 us (study of measured collectives).
  enum class Driver { process, thread, torch };
  std::string name;  // class of machine
  Collective op = Collective::all_reduce;
  Driver driver = Driver::process;
  int ranks = 1;
  std::shared_ptr<const Cluster> cluster;
  GroupShape shape;
  struct Point {
    double bytes = 0.0, seconds = 0.0;  // of the full buffer
  };
  std::vector<Point> points;
};

// Reads the files of the folders that hold a list `runs` (format: hardware/measurements/README.md). Reports everything
// that is wrong; the result then holds the good runs.
std::vector<CollectiveRun> load_collective_runs(std::span<const std::string> paths, const DataFolder& data,
                                                Diagnostics& diagnostics);

// Sizes and out-of-place times from the output of nccl-tests or rccl-tests; prefixes of mpirun ("[1,0]<stdout>:"), log
// lines of the library and runs of zero bytes are passed over. Empty if there is no table.
std::vector<CollectiveRun::Point> parse_nccl_tests(std::string_view text);

// One constant of hardware/calibrated/collectives.yaml beside what the runs say when all are fitted together.
struct CollectiveConstant {
  std::string name;  // "bandwidth_protocol.base", "networks.roce.latency" ...
  double value = 0.0, fitted = 0.0;
  std::size_t points = 0;  // that feel it
};
struct CollectiveFit {
  std::size_t runs = 0, points = 0;
  double mean_error = 0.0, median_error = 0.0;                // of |predicted / measured - 1|, as the file stands
  double fitted_mean_error = 0.0, fitted_median_error = 0.0;  // with the fitted constants
  std::vector<CollectiveConstant> constants;
};
// The file's values are the prior (a factor of 1.3 either way), so a constant that few points feel stays near it.
// Without runs: no constants.
CollectiveFit fit_collectives(std::span<const CollectiveRun> runs, const CollectiveConstants& constants);

}  // namespace foretrain
