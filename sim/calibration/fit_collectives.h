#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/calibration/constant_files.h"
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
  std::vector<int> gpus;  // that take part, of the cluster
  GroupShape shape;
  struct Point {
    double bytes = 0.0, seconds = 0.0;  // of the full buffer
  };
  std::vector<Point> points;
};

// Reads the files of the folders that hold a list `runs` (format: hardware/measurements/README.md). Reports everything
// that is wrong; the result then holds the good runs.
std::vector<CollectiveRun> load_collective_runs(std::span<const std::string> paths, const DataFolder& data,
                                                const LinkRates& rates, Diagnostics& diagnostics);

// Sizes and out-of-place times from the output of nccl-tests or rccl-tests; prefixes of mpirun ("[1,0]<stdout>:"), log
// lines of the library and runs of zero bytes are passed over. Empty if there is no table.
std::vector<CollectiveRun::Point> parse_nccl_tests(std::string_view text);

// The constants that decide the time of a collective.
struct CollectiveModel {
  CollectiveConstants constants;
  LinkRates rates;
};
// Mean and median of |predicted / measured - 1|.
struct CollectiveError {
  double mean = 0.0, median = 0.0;
};
struct CollectiveFit {
  std::size_t runs = 0, points = 0;
  CollectiveError given, fitted;       // with the given constants; with all fitted together
  CollectiveError written;             // with those fitted that the rules leave to the runs
  CollectiveError left_out;            // each class of machines predicted by a fit that has not seen it; or zero
  std::vector<ConstantFit> constants;  // of collectives.yaml and links.yaml, also those no run feels
  struct Class {
    std::string name;
    std::size_t runs = 0, points = 0;
    double given = 0.0, fitted = 0.0, left_out = 0.0;  // mean errors
  };
  std::vector<Class> classes;
};
// All constants of both files together, robustly, within the bounds of `rules`. The given values are the prior (a
// factor of 1.3 either way), so a constant that few points feel stays near it. Rates inside and between nodes are
// scaled as the machine's slowest link is; the errors are those of machines built anew. Without runs: no constants.
CollectiveFit fit_collectives(std::span<const CollectiveRun> runs, const CollectiveModel& given,
                              const ConstantRules& rules);

// Sets `left_out` of the fit and of its classes: one more fit for each class. `fit` is of the same runs and model.
void leave_out_classes(std::span<const CollectiveRun> runs, const CollectiveModel& given, const ConstantRules& rules,
                       CollectiveFit& fit);

// `given` with the fitted constants that the rules leave to the runs.
CollectiveModel calibrated_model(const CollectiveModel& given, const CollectiveFit& fit, const ConstantRules& rules);

}  // namespace foretrain
