#include "sim/calibration/calibrate.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <span>
#include <utility>

#include "sim/cli/calibrate_software.h"
#include "sim/cli/command.h"
#include "sim/cli/help.h"
#include "sim/cli/output.h"
#include "sim/report/calibration_report.h"

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
  const auto constant_rules = load_constant_rules(paths.front() + "/constants.yaml", diagnostics);
  if (!rules || !constant_rules || diagnostics.has_errors()) return std::nullopt;
  auto calibration = calibrate(*rules, measurements, data, diagnostics);
  auto constants = calibrate_constants(*constant_rules, paths, data, diagnostics);
  if (!calibration || !constants) return std::nullopt;
  calibration->collectives = std::move(constants->collectives);
  calibration->constants = std::move(constants->constants);
  calibration->constant_files = std::move(constants->files);
  calibration->given = constant_rules->rules;
  return calibration;
}

std::optional<std::string> text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

std::vector<FileText> files_of(const Calibration& calibration) {
  std::vector<FileText> files = calibration.constant_files;
  for (const CalibratedFile& file : calibration.files) files.push_back({file.name, file_text(file)});
  return files;
}

// Says which files would change; an answer only if none does.
int check(std::span<const FileText> files, const std::string& folder, const report::Words& words) {
  int different = 0;
  for (const FileText& file : files) {
    const std::string path = fmt::format("{}/{}.yaml", folder, file.name);
    if (text_of(path) == file.text) continue;
    fmt::print(stderr, "foretrain: {}\n", words("{} is not what the measurements give", path));
    ++different;
  }
  if (different == 0) return kAnswered;
  return fail(words, message("{} of {} files differ; `foretrain calibrate --out {}` writes them", different,
                             files.size(), folder));
}

int write(std::span<const FileText> files, const std::string& folder, const report::Words& words) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  for (const FileText& file : files) {
    const std::string path = fmt::format("{}/{}.yaml", folder, file.name);
    if (text_of(path) == file.text) continue;
    std::ofstream stream(path, std::ios::binary | std::ios::trunc);
    if (!(stream << file.text) || !stream.flush()) return fail(words, message("cannot write {}", path));
    fmt::print(stderr, "{}\n", words("wrote {}", path));
  }
  return kAnswered;
}

int calibrate_all(const CalibrateOptions& options) {
  Diagnostics diagnostics;
  const std::optional<DataFolder> data = find_data(options, diagnostics);
  if (data && (options.software || options.leave_out)) {
    return calibrate_software({options.out, options.check, options.leave_out, threads_of(options), options.words},
                              *data);
  }
  const auto calibration = data ? calibrated(options, *data, diagnostics) : std::nullopt;
  print(diagnostics, options.words, options.quiet);
  if (!calibration) return kBadInput;

  const int delivered =
      deliver(options, [&] { return report::calibration_table(*calibration, options.every, standard_output(options)); },
              {{options.json, [&] { return report::calibration_json(*calibration); }},
               {options.csv, [&] { return report::calibration_csv(*calibration); }}});
  if (delivered != kAnswered) return delivered;
  const std::string folder = options.out.empty() ? data->path + "/hardware/calibrated" : options.out;
  const std::vector<FileText> files = files_of(*calibration);
  if (options.check) return check(files, folder, options.words);
  return options.out.empty() ? kAnswered : write(files, folder, options.words);
}

}  // namespace

Command calibrate_command(CLI::App& program, const CommonOptions& common) {
  const report::Words& words = common.words;
  CLI::App& parser =
      *program.add_subcommand("calibrate", words("fit the cost curves to measured kernels, collectives and copies"));
  const auto options = starting_from<CalibrateOptions>(common);
  parser
      .add_option("--measurements", options->measurements,
                  words("further files or folders of measurements (CSV, YAML), beside hardware/measurements"))
      ->type_name("PATH")
      ->allow_extra_args(false);
  parser.add_option("--out", options->out, words("write the files to this folder"))->type_name("DIR");
  parser.add_flag("--check", options->check,
                  words("fail (exit status 2) unless the files of hardware/calibrated, or of --out, are up to date"));
  parser.add_flag("--all", options->every, words("list every figure, not only those that measurements speak of"));
  parser.add_flag(
      "--software", options->software,
      words("fit steps.yaml instead: what whole published steps make of kernel rates and framework profiles"));
  parser.add_flag("--leave-out", options->leave_out,
                  words("as --software, and the error of each source when the fit does not see it (leave_out.yaml)"));
  add_output_options(parser, *options);
  add_data_option(parser, *options);
  add_threads_option(parser, *options);
  add_examples(
      parser, words,
      {{"foretrain calibrate", words("how good are the fits, and where is no data?")},
       {"foretrain calibrate --out hardware/calibrated", words("write the files")},
       {"tools/measure-kernels.py > my-gpu.csv && foretrain calibrate --measurements my-gpu.csv --out mine"}},
      words("It writes the achieved rates of every card, and collectives.yaml, hosts.yaml and "
            "links.yaml.\nhardware/measurements/README.md has the format of the measurements and of the rules."));
  return {&parser, [options] { return calibrate_all(*options); }};
}

}  // namespace foretrain::cli
