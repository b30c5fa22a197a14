#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/calibration/residuals.h"

namespace foretrain {

// How unlike two runs are, as far as it bears on how well they are predicted: 0 for runs of the same GPU, framework,
// links, scale, model size and kind of plan, about 1 for another GPU generation or framework. The terms are listed in
// confidence.cpp. The intervals hardly depend on any one of them: without it, the runs left out are covered as well,
// with ranges at most a tenth wider.
double distance(const RunTraits& a, const RunTraits& b);

// What the residuals say as a whole. Fitted by fit_error_model and kept in the head of the file of residuals.
struct ErrorModel {
  // By how much the logarithm of a range grows at either end, times the squared mean distance of the runs it is made
  // of.
  double widening = 0;
  // Nineteen in twenty runs, each source left out in turn, had a measured run nearer than this.
  double tested_distance = 0;
  // Variance of the difference of the log errors of two runs of one source: at distance 0, and what every unit adds.
  double pair_variance = 0, pair_variance_slope = 0;
};

// Of the numbers a run multiplies: 8, 16 or 32.
int bits(const RunTraits& run);

struct ErrorBars {
  std::vector<Residual> residuals;  // rows of one source are next to each other
  ErrorModel model;
};

// The measured runs that resemble a run, those of one source left aside if it is named.
struct Neighbourhood {
  std::size_t nearest = 0;      // index of the residual
  double nearest_distance = 0;  // its distance
  double mean_distance = 0;     // of all, by weight
  double low = 0, high = 0;     // 5 % and 95 % quantile of the log errors, by weight
};
// nullopt without any run. At most thirty runs of a source and twelve sources count, with weights that fall
// exponentially with the distance; a source's weight does not grow with its number of runs.
std::optional<Neighbourhood> neighbourhood(const RunTraits& run, std::span<const Residual> residuals,
                                           std::string_view without_source = {});

// Where ln(predicted / measured) of nine in ten such runs is. Always holds 0, the prediction itself.
struct LogRange {
  double low = 0, high = 0;
  bool holds(double log_error) const { return low <= log_error && log_error <= high; }
};
LogRange log_range(const Neighbourhood& neighbours, const ErrorModel& model);

// Chooses the constants: the widening such that nine tenths of the runs are in their ranges when their whole source is
// left out, each source counting alike; the rest as described at ErrorModel. Residuals are sorted by source.
ErrorModel fit_error_model(std::span<const Residual> residuals);

// How many runs are in their 90 % range when their source is left out.
struct Coverage {
  struct OfSource {
    std::string source;
    std::size_t runs = 0, inside = 0;
    double mean_width = 0;  // of the logarithm
  };
  std::vector<OfSource> sources;
  double of_runs = 0, of_sources = 0;  // share inside, every run or every source counted alike
  double mean_width = 0;               // every run counted alike
};
Coverage leave_sources_out(const ErrorBars& bars);

// Probability that of two predicted runs the one that is predicted faster by `ratio` (>= 1) is the faster one. Errors
// that two runs of one framework, machine and author share cancel; what is left is how much the errors of such pairs
// differ among the measured runs. From 0.5 at a ratio of 1 to 0.99.
double order_likelihood(double ratio, const RunTraits& a, const RunTraits& b, const ErrorModel& model);

// hardware/calibrated/residuals.csv; no residuals if there is no such file, and nullopt if it is wrong.
std::optional<ErrorBars> load_error_bars(const DataFolder& data, Diagnostics& diagnostics);
// The same of the text of a file.
std::optional<ErrorBars> read_error_bars(std::string_view text, const std::string& file_name, Diagnostics& diagnostics);
// The text of that file.
std::string to_csv(const ErrorBars& bars);

// Fills in the error bar of a simulated case, with warnings where nothing like it was measured. Without residuals
// nothing is said.
void add_error_bar(CaseReport& report, const ErrorBars& bars);

// For `judge`: how likely the order of two simulated cases is right.
std::optional<double> order_likelihood(const CaseReport& faster, const CaseReport& slower, double ratio,
                                       const ErrorBars& bars);

}  // namespace foretrain
