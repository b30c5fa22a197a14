#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace foretrain {

// A positive quantity to be fitted, between physical bounds. A prior says where it lies if the data cannot: it counts
// as one more observation, `spread` wide in the logarithm (0.5: within a factor of 1.6 two times in three).
struct FitParameter {
  double start = 1.0, min = 0.0, max = 0.0;
  std::optional<double> prior;
  double spread = 0.5;
};

struct RobustFit {
  std::vector<double> values;      // of the parameters
  std::vector<bool> at_bound;      // the data would have gone further
  std::vector<double> log_errors;  // ln(predicted / measured) of each observation
  double scale = 0.0;              // spread of the bulk of log_errors
};

// Fits parameters so that predictions meet measurements, both positive. Works on the logarithms of times and
// parameters, so that a kernel of a microsecond counts as much as one of a second.
//
// Robust: iteratively reweighted Gauss-Newton steps with Huber's weights (P. Huber, "Robust estimation of a location
// parameter", 1964): beyond 1.345 times the spread of the bulk (from the median of the absolute errors) an observation
// pulls no harder however far off it is. Damped (Levenberg-Marquardt) and kept within the bounds.
// `predict` fills one prediction per measurement for the given values. Deterministic.
// Precondition: at least one parameter, start within bounds, measurements > 0.
using Predict = std::function<void(std::span<const double> values, std::span<double> predictions)>;
RobustFit fit_robust(std::span<const FitParameter> parameters, std::span<const double> measured,
                     const Predict& predict);

// The p-quantile (0 to 1) of the values, between two of them interpolated linearly; 0 of none.
double quantile(std::vector<double> values, double p);

}  // namespace foretrain
