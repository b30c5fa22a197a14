#include "sim/cli/calibrate_software.h"

#include <fmt/format.h>

#include <fstream>
#include <iterator>

#include "sim/calibration/step_fit.h"
#include "sim/cli/command.h"

namespace foretrain::cli {
namespace {

void print_left_out(const std::vector<LeftOut>& results) {
  double in = 0, out = 0;
  fmt::print("{:<30} {:>5} {:>10} {:>10}\n", "source", "rows", "fitted", "left out");
  for (const LeftOut& r : results) {
    fmt::print("{:<30} {:>5} {:>8.1f} % {:>8.1f} %\n", r.source, r.rows, 100 * r.error_in, 100 * r.error_out);
    in += r.error_in / static_cast<double>(results.size());
    out += r.error_out / static_cast<double>(results.size());
  }
  fmt::print("{:<30} {:>5} {:>8.1f} % {:>8.1f} %\n", "mean of sources", "", 100 * in, 100 * out);
}

}  // namespace

int calibrate_software(const SoftwareFitOptions& options, const DataFolder& data) {
  Diagnostics diagnostics;
  const auto environment = load_environment(data, diagnostics);
  const std::vector<StepObservation> observations = load_observations(data, diagnostics);
  print(diagnostics, false);
  if (!environment || diagnostics.has_errors()) return kBadInput;

  const StepFit fit = fit_step_factors(observations, *environment, options.threads);
  const std::string text = to_yaml(fit, observations);
  fmt::print("{}\nmean error, every source counted alike: {:.2f} % with all factors 1, {:.2f} % fitted\n", text,
             100 * fit.error_before, 100 * fit.error_after);
  if (options.leave_out) print_left_out(leave_sources_out(observations, *environment, options.threads));

  const std::string folder = options.out.empty() ? data.path + "/hardware/calibrated" : options.out;
  const std::string path = folder + "/steps.yaml";
  if (options.check) {
    std::ifstream file(path, std::ios::binary);
    const std::string present(std::istreambuf_iterator<char>(file), {});
    return present == text ? kAnswered : fail(fmt::format("{} is not what the published runs give", path));
  }
  if (options.out.empty()) return kAnswered;
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  if (!(file << text) || !file.flush()) return fail(fmt::format("cannot write {}", path));
  return kAnswered;
}

}  // namespace foretrain::cli
