#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/calibration/confidence.h"

namespace foretrain {
namespace {

ErrorBar::Confidence confidence_of(const LogRange& range, double nearest, const ErrorModel& model, bool warned) {
  // Half of a "high" range is 20 % or less, and half of a "medium" one 35 %.
  constexpr double kHigh = 0.36, kMedium = 0.60, kNear = 1.0;
  const double width = range.high - range.low;
  if (warned || width > kMedium || nearest > model.tested_distance) return ErrorBar::Confidence::low;
  return width <= kHigh && nearest <= kNear ? ErrorBar::Confidence::high : ErrorBar::Confidence::medium;
}

// What of a run was never measured, whatever the rest of it.
std::vector<std::string> never_measured(const RunTraits& run, std::span<const Residual> residuals) {
  const auto any = [&](const auto& holds) {
    return std::any_of(residuals.begin(), residuals.end(), [&](const Residual& r) { return holds(r.run); });
  };
  const auto most = [&](auto figure) {
    double highest = 0;
    for (const Residual& r : residuals) highest = std::max(highest, static_cast<double>(figure(r.run)));
    return highest;
  };
  const auto least = [&](auto figure) {
    double lowest = std::numeric_limits<double>::infinity();
    for (const Residual& r : residuals) lowest = std::min(lowest, static_cast<double>(figure(r.run)));
    return lowest;
  };
  constexpr double kBeyond = 2.0;  // a factor this far outside the measured sizes is noted
  std::vector<std::string> missing;
  if (!any([&](const RunTraits& r) { return r.gpu == run.gpu; })) missing.push_back("on " + run.gpu);
  if (!any([&](const RunTraits& r) { return r.family == run.family; })) missing.push_back("with " + run.software);
  if (run.nodes > 1 && !any([&](const RunTraits& r) { return r.network == run.network; })) {
    missing.push_back("over " + run.network);
  }
  if (!any([&](const RunTraits& r) { return bits(r) == bits(run); })) {
    missing.push_back("in " + run.precision);
  }
  const auto gpus = [](const RunTraits& r) { return r.gpus; };
  const auto parameters = [](const RunTraits& r) { return r.parameters; };
  const auto tokens = [](const RunTraits& r) { return r.seq_len; };
  if (run.gpus > kBeyond * most(gpus)) missing.push_back(fmt::format("on more than {} GPUs", most(gpus)));
  if (static_cast<double>(run.parameters) > kBeyond * most(parameters)) {
    missing.push_back(fmt::format("of more than {:.3g}e9 parameters", most(parameters) / 1e9));
  }
  if (static_cast<double>(run.parameters) * kBeyond < least(parameters)) {
    missing.push_back(fmt::format("of fewer than {:.2g}e9 parameters", least(parameters) / 1e9));
  }
  if (static_cast<double>(run.seq_len) > kBeyond * most(tokens)) {
    missing.push_back(fmt::format("with more than {} tokens a sequence", most(tokens)));
  }
  return missing;
}

ErrorBar::Nearest nearest_run(const Neighbourhood& n, std::span<const Residual> residuals) {
  const Residual& r = residuals[n.nearest];
  return {r.name, r.source, r.run.gpu, r.run.software, r.run.gpus, std::expm1(r.log_error), n.nearest_distance};
}

}  // namespace

void add_error_bar(CaseReport& report, const ErrorBars& bars) {
  const RunTraits run = traits_of(report.subject);
  const auto neighbours = neighbourhood(run, bars.residuals);
  if (!neighbours) return;
  const LogRange range = log_range(*neighbours, bars.model);
  const std::vector<std::string> missing = never_measured(run, bars.residuals);
  const double seconds = report.step_time.seconds();
  ErrorBar bar;
  bar.low_s = seconds * std::exp(-range.high);
  bar.high_s = seconds * std::exp(-range.low);
  bar.nearest = nearest_run(*neighbours, bars.residuals);
  bar.confidence = confidence_of(range, neighbours->nearest_distance, bars.model, !missing.empty());
  const Message nearest = message("the nearest is {} ({} x {}, {})", bar.nearest.name, bar.nearest.gpus,
                                  bar.nearest.gpu, bar.nearest.software);
  if (!missing.empty()) {
    report.warnings.push_back(
        message("outside of what was validated: no measured run {}; {}", fmt::join(missing, ", none "), nearest));
  } else if (neighbours->nearest_distance > bars.model.tested_distance) {
    report.warnings.push_back(message("outside of what was validated: no measured run is like this one; {}", nearest));
  }
  report.error_bar = std::move(bar);
}

std::optional<double> order_likelihood(const CaseReport& faster, const CaseReport& slower, double ratio,
                                       const ErrorBars& bars) {
  if (bars.residuals.empty()) return std::nullopt;
  return order_likelihood(ratio, traits_of(faster.subject), traits_of(slower.subject), bars.model);
}

}  // namespace foretrain
