#pragma once

#include <string>
#include <vector>

#include "sim/analysis/case_report.h"

namespace foretrain {

// A published run to fit to: what it took, and the source it came from. Sources count alike, however many rows they
// have.
struct StepObservation {
  Case subject;
  double measured_s = 0;
  std::string source;
};

// The runs of tests/validation/measured that are fitted to: every step time of the files without -low and -ext, but for
// flagged runs (tests/validation/flags.yaml), and of a source with very many runs an even choice of 128.
std::vector<StepObservation> load_observations(const DataFolder& data, Diagnostics& diagnostics);

// One factor that was fitted.
struct FittedFactor {
  std::string kind;   // "software" or "gpu"
  std::string owner;  // profile or GPU name
  std::string name;   // "elementwise", "matmul_16", ...
  double value = 1.0;
  double prior_width = 0.1;  // standard deviation of its logarithm before any data
  int rows = 0;              // runs that say anything about it
};

struct StepFit {
  StepFactors factors;
  std::vector<FittedFactor> fitted;
  // Mean over sources of the mean absolute error, before and after.
  double error_before = 0, error_after = 0;
};

// Fits the factors of every framework and GPU among the observations by robust least squares on the logarithm of
// predicted over measured step time (Gauss-Newton, Huber weights), held to 1 by a prior as wide as the factor's physics
// allows. Deterministic for any number of threads.
StepFit fit_step_factors(const std::vector<StepObservation>& observations, const Environment& environment, int threads);

// Mean error of each source when its own rows are left out of the fit, beside the error with them in. `fit` is of all
// observations. The fits without a source start from it and take the predictions to be linear in the logarithms of the
// factors there (they move by a few per cent), so that leaving a source out costs no simulation but its own rows, which
// are simulated in full.
struct LeftOut {
  std::string source;
  int rows = 0;
  double error_in = 0, error_out = 0;
};
std::vector<LeftOut> leave_sources_out(const std::vector<StepObservation>& observations, const StepFit& fit,
                                       const Environment& environment, int threads);
struct MeanLeftOut {
  double error_in = 0, error_out = 0;
};
MeanLeftOut mean_of(const std::vector<LeftOut>& results);  // every source counted alike

// The text of hardware/calibrated/leave_out.yaml, and what it says; empty if there is no such file.
std::string to_yaml(const std::vector<LeftOut>& results);
std::vector<LeftOut> load_left_out(const DataFolder& data, Diagnostics& diagnostics);

// The text of hardware/calibrated/steps.yaml.
std::string to_yaml(const StepFit& fit, const std::vector<StepObservation>& observations);

}  // namespace foretrain
