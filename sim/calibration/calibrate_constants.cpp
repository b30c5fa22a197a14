#include <fmt/format.h>

#include "sim/calibration/calibrate.h"

namespace foretrain {
namespace {

// What the heading of collectives.yaml and links.yaml says of the fit.
std::vector<std::string> notes_on(const CollectiveFit& fit) {
  if (fit.points == 0) return {};
  std::vector<std::string> notes;
  notes.push_back(fmt::format(
      "{} points of {} runs of collectives on {} kinds of machine, all constants fitted together: error mean {:.1f} %, "
      "median {:.1f} % ({:.1f} and {:.1f} % as given; {:.1f} and {:.1f} % as written here; {:.1f} and {:.1f} % for a "
      "kind "
      "of machine that the fit has not seen).",
      fit.points, fit.runs, fit.classes.size(), 100 * fit.fitted.mean, 100 * fit.fitted.median, 100 * fit.given.mean,
      100 * fit.given.median, 100 * fit.written.mean, 100 * fit.written.median, 100 * fit.left_out.mean,
      100 * fit.left_out.median));
  std::string runs = "Runs:";
  for (const CollectiveFit::Class& c : fit.classes) {
    runs += fmt::format("{} {} {}", c.name == fit.classes.front().name ? "" : ",", c.runs, c.name);
  }
  notes.push_back(runs + ". Each with its source in collectives.yaml there.");
  return notes;
}

}  // namespace

std::optional<ConstantsCalibration> calibrate_constants(const ConstantRules& rules,
                                                        std::span<const std::string> measurements,
                                                        const DataFolder& data, Diagnostics& diagnostics) {
  const int errors_before = diagnostics.error_count();
  const auto constants = read_collective_constants(given_constants(rules, "collectives", diagnostics), diagnostics);
  const auto rates = read_link_rates(given_constants(rules, "links", diagnostics), diagnostics);
  const auto host = read_host_rates(given_constants(rules, "hosts", diagnostics), diagnostics);
  if (!constants || !rates || !host) return std::nullopt;
  const std::vector<CollectiveRun> runs = load_collective_runs(measurements, data, *rates, diagnostics);
  const HostMeasurements hosts = load_host_measurements(measurements, diagnostics);
  if (diagnostics.error_count() > errors_before) return std::nullopt;

  ConstantsCalibration result;
  const CollectiveModel given{*constants, *rates};
  result.collectives = fit_collectives(runs, given, rules);
  leave_out_classes(runs, given, rules, result.collectives);
  result.constants = fit_hosts(hosts, *host);
  const std::vector<ConstantFit>& fitted = result.collectives.constants;
  result.constants.insert(result.constants.end(), fitted.begin(), fitted.end());
  for (const std::string& file : rules.files()) {
    const std::vector<std::string> notes = file == "hosts" ? std::vector<std::string>{} : notes_on(result.collectives);
    result.files.push_back({file, constant_file_text(rules, file, result.constants, notes)});
  }
  return result;
}

}  // namespace foretrain
