#include "sim/cli/calibrate_software.h"

#include <fmt/format.h>

#include <fstream>
#include <iterator>

#include "sim/calibration/step_fit.h"
#include "sim/cli/command.h"

namespace foretrain::cli {
namespace {

void print_left_out(const std::vector<LeftOut>& results) {
  fmt::print("{:<30} {:>5} {:>10} {:>10}\n", "source", "rows", "fitted", "left out");
  for (const LeftOut& r : results) {
    fmt::print("{:<30} {:>5} {:>8.1f} % {:>8.1f} %\n", r.source, r.rows, 100 * r.error_in, 100 * r.error_out);
  }
  const MeanLeftOut mean = mean_of(results);
  fmt::print("{:<30} {:>5} {:>8.1f} % {:>8.1f} %\n", "mean of sources", "", 100 * mean.error_in, 100 * mean.error_out);
}

// Compares or writes one file of a folder.
int settle(const std::string& folder, const char* name, const std::string& text, const SoftwareFitOptions& options) {
  const std::string path = fmt::format("{}/{}", folder, name);
  if (options.check) {
    std::ifstream file(path, std::ios::binary);
    const std::string present(std::istreambuf_iterator<char>(file), {});
    return present == text ? kAnswered : fail(options.words, message("{} is not what the published runs give", path));
  }
  if (options.out.empty()) return kAnswered;
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  if (!(file << text) || !file.flush()) return fail(options.words, message("cannot write {}", path));
  return kAnswered;
}

}  // namespace

int calibrate_software(const SoftwareFitOptions& options, const DataFolder& data) {
  Diagnostics diagnostics;
  const auto environment = load_environment(data, diagnostics);
  const std::vector<StepObservation> observations = load_observations(data, diagnostics);
  print(diagnostics, options.words);
  if (!environment || diagnostics.has_errors()) return kBadInput;

  const StepFit fit = fit_step_factors(observations, *environment, options.threads);
  const std::string text = to_yaml(fit, observations);
  fmt::print("{}\nmean error, every source counted alike: {:.2f} % with all factors 1, {:.2f} % fitted\n", text,
             100 * fit.error_before, 100 * fit.error_after);
  const std::string folder = options.out.empty() ? data.path + "/hardware/calibrated" : options.out;
  if (options.leave_out) {
    const std::vector<LeftOut> left_out = leave_sources_out(observations, fit, *environment, options.threads);
    print_left_out(left_out);
    if (const int status = settle(folder, "leave_out.yaml", to_yaml(left_out), options); status != kAnswered)
      return status;
  }
  return settle(folder, "steps.yaml", text, options);
}

}  // namespace foretrain::cli
