#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>

#include "sim/calibration/confidence.h"

namespace foretrain {

std::optional<ErrorBars> load_error_bars(const DataFolder& data, Diagnostics& diagnostics) {
  const std::string path = data.path + "/hardware/calibrated/residuals.csv";
  std::error_code unreadable;
  if (!std::filesystem::exists(path, unreadable)) return ErrorBars{};
  std::ifstream stream(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  if (!stream) {
    diagnostics.error({std::make_shared<const std::string>(path), 0, 0}, message("cannot be read"));
    return std::nullopt;
  }
  return read_error_bars(text, path, diagnostics);
}

std::optional<ErrorBars> read_error_bars(std::string_view text, const std::string& file_name,
                                         Diagnostics& diagnostics) {
  auto file = read_residuals(text, file_name, diagnostics);
  if (!file) return std::nullopt;
  ErrorBars bars{std::move(file->rows), {}};
  std::stable_sort(bars.residuals.begin(), bars.residuals.end(),
                   [](const Residual& a, const Residual& b) { return a.source < b.source; });
  const auto take = [&](const char* name, double& value) {
    const auto found = file->settings.find(name);
    if (found != file->settings.end() && found->second >= 0 && found->second <= 1e6) {
      value = found->second;
    } else {
      diagnostics.error({std::make_shared<const std::string>(file_name), 1, 1},
                        message("there is no line '#: {}: NUMBER', a number from 0 to 1e6", name));
    }
  };
  const int errors_before = diagnostics.error_count();
  take("widening", bars.model.widening);
  take("tested_distance", bars.model.tested_distance);
  take("pair_variance", bars.model.pair_variance);
  take("pair_variance_slope", bars.model.pair_variance_slope);
  if (diagnostics.error_count() > errors_before) return std::nullopt;
  return bars;
}

std::string to_csv(const ErrorBars& bars) {
  const Coverage coverage = leave_sources_out(bars);
  const std::vector<std::string> head = {
      "about: Written by `foretrain validate --residuals`; do not edit. ln(predicted / measured) of published runs, and"
      " what makes error bars of them.",
      fmt::format(
          "coverage: {:.1f} % of {} runs are in their 90 % range when their whole source is left out ({:.1f} % if"
          " each of {} sources counts alike)",
          100 * coverage.of_runs, bars.residuals.size(), 100 * coverage.of_sources, coverage.sources.size()),
      fmt::format("widening: {:.6f}", bars.model.widening),
      fmt::format("tested_distance: {:.6f}", bars.model.tested_distance),
      fmt::format("pair_variance: {:.6f}", bars.model.pair_variance),
      fmt::format("pair_variance_slope: {:.6f}", bars.model.pair_variance_slope)};
  return residuals_csv(bars.residuals, head);
}

}  // namespace foretrain
