#include "sim/calibration/calibrate.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>

#include "sim/cli/calibrate_software.h"
#include "sim/cli/command.h"
#include "sim/cli/output.h"
#include "sim/report/calibration_json.h"

namespace foretrain::cli {
namespace {

struct CalibrateOptions : CommonOptions {
  std::vector<std::string> measurements;
  std::string out;
  bool check = false, every = false;
  bool software = false, leave_out = false;
};

std::optional<Calibration> calibrated(const CalibrateOptions& options, const DataFolder& data,
                                      Diagnostics& diagnostics) {
  std::vector<std::string> paths = {data.path + "/hardware/measurements"};
  paths.insert(paths.end(), options.measurements.begin(), options.measurements.end());
  const Measurements measurements = load_measurements(paths, data, diagnostics);
  const auto rules = load_rules(paths.front() + "/rules.yaml", diagnostics);
  const std::vector<CollectiveRun> runs = load_collective_runs(paths, data, diagnostics);
  const HostMeasurements hosts = load_host_measurements(paths, diagnostics);
  const auto constants = load_collective_constants(data, diagnostics);
  const auto links = load_link_rates(data, diagnostics);
  if (!rules || !constants || !links || diagnostics.has_errors()) return std::nullopt;
  auto calibration = calibrate(*rules, measurements, data, diagnostics);
  if (calibration) {
    calibration->collectives = fit_collectives(runs, *constants);
    calibration->hosts = fit_hosts(hosts, *links);
  }
  return calibration;
}

std::optional<std::string> text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// Says which files would change; an answer only if none does.
int check(const Calibration& calibration, const std::string& folder) {
  int different = 0;
  for (const CalibratedFile& file : calibration.files) {
    const std::string path = fmt::format("{}/{}.yaml", folder, file.name);
    if (text_of(path) == file_text(file)) continue;
    fmt::print(stderr, "foretrain: {} is not what the measurements give\n", path);
    ++different;
  }
  if (different == 0) return kAnswered;
  return fail(fmt::format("{} of {} files differ; `foretrain calibrate --out {}` writes them", different,
                          calibration.files.size(), folder));
}

int write(const Calibration& calibration, const std::string& folder) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  for (const CalibratedFile& file : calibration.files) {
    const std::string path = fmt::format("{}/{}.yaml", folder, file.name);
    const std::string text = file_text(file);
    if (text_of(path) == text) continue;
    std::ofstream stream(path, std::ios::binary | std::ios::trunc);
    if (!(stream << text) || !stream.flush()) return fail(fmt::format("cannot write {}", path));
    fmt::print(stderr, "wrote {}\n", path);
  }
  return kAnswered;
}

int calibrate_all(const CalibrateOptions& options) {
  Diagnostics diagnostics;
  const std::optional<DataFolder> data = find_data(options, diagnostics);
  if (data && (options.software || options.leave_out)) {
    return calibrate_software({options.out, options.check, options.leave_out, threads_of(options)}, *data);
  }
  const auto calibration = data ? calibrated(options, *data, diagnostics) : std::nullopt;
  print(diagnostics, options.quiet);
  if (!calibration) return kBadInput;

  const int delivered = deliver(options, [&] { return calibration_table(*calibration, options.every); },
                                {{options.json, [&] { return report::calibration_json(*calibration); }},
                                 {options.csv, [&] { return calibration_csv(*calibration); }}});
  if (delivered != kAnswered) return delivered;
  const std::string folder = options.out.empty() ? data->path + "/hardware/calibrated" : options.out;
  if (options.check) return check(*calibration, folder);
  return options.out.empty() ? kAnswered : write(*calibration, folder);
}

}  // namespace

Command calibrate_command(CLI::App& program) {
  CLI::App& parser = *program.add_subcommand("calibrate", "fit the cost curves to measured kernels");
  const auto options = std::make_shared<CalibrateOptions>();
  parser
      .add_option("--measurements", options->measurements,
                  "further files or folders of measurements (CSV, YAML), beside hardware/measurements")
      ->type_name("PATH")
      ->allow_extra_args(false);
  parser.add_option("--out", options->out, "write the files of achieved rates to this folder")->type_name("DIR");
  parser.add_flag("--check", options->check,
                  "fail (exit status 2) unless the files of hardware/calibrated, or of --out, are up to date");
  parser.add_flag("--all", options->every, "list every figure, not only those that measurements speak of");
  parser.add_flag("--software", options->software,
                  "fit steps.yaml instead: what whole published steps make of kernel rates and framework profiles");
  parser.add_flag("--leave-out", options->leave_out,
                  "as --software, and the error of each source when the fit does not see it (minutes)");
  add_output_options(parser, *options);
  add_data_option(parser, *options);
  add_threads_option(parser, *options);
  parser.footer(
      "Examples:\n"
      "  foretrain calibrate                                   how good are the fits, and where is no data?\n"
      "  foretrain calibrate --out hardware/calibrated         write the files\n"
      "  tools/measure-kernels.py > my-gpu.csv && foretrain calibrate --measurements my-gpu.csv --out mine\n"
      "collectives.yaml and links.yaml are compared with measurements and not written.\n"
      "hardware/measurements/README.md has the format of the measurements.");
  return {&parser, [options] { return calibrate_all(*options); }};
}

}  // namespace foretrain::cli
