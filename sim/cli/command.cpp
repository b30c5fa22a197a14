#include "sim/cli/command.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "sim/config/quote.h"

#include "sim/base/parallel.h"

namespace foretrain::cli {

void add_data_option(CLI::App& parser, CommonOptions& options) {
  parser.add_option("--data", options.data, "folder with hardware/ and configs/ (default: $FORETRAIN_DATA)")
      ->type_name("DIR");
}

void add_output_options(CLI::App& parser, CommonOptions& options, bool with_csv) {
  CLI::Option* json = parser.add_option("--json", options.json, "write JSON to a file; - is standard output");
  json->type_name("FILE");
  if (with_csv) parser.add_option("--csv", options.csv, "write CSV to a file; - is standard output")->type_name("FILE");
  parser.add_flag("-q,--quiet", options.quiet, "no table and no warnings");
  parser.add_option("--lang", options.language, "language of tables: en or zh (default: that of the locale)")
      ->check(CLI::IsMember({"en", "zh"}));
  parser.final_callback([&options] {
    if (!options.json.empty() && options.json == options.csv) {
      throw CLI::ValidationError("--json and --csv", "cannot both be written to " + options.json);
    }
  });
}

void add_threads_option(CLI::App& parser, CommonOptions& options) {
  parser.add_option("--threads", options.threads, "cases simulated at the same time (default: one a processor)")
      ->type_name("N")
      ->check(CLI::Range(1, 4096));
}

int threads_of(const CommonOptions& options) { return options.threads > 0 ? options.threads : default_threads(); }

std::optional<DataFolder> find_data(const CommonOptions& options, Diagnostics& diagnostics) {
  const char* variable = std::getenv("FORETRAIN_DATA");
  const bool from_variable = variable != nullptr && *variable != '\0';
  const std::string path = !options.data.empty() ? options.data : from_variable ? variable : FORETRAIN_SOURCE_DIR;
  std::error_code unreadable;
  for (const char* part : {"/hardware", "/configs"}) {
    if (std::filesystem::is_directory(path + part, unreadable)) continue;
    diagnostics.error(
        {}, fmt::format("no data in {}: there is no folder {}{}; name another with --data", path, path, part));
    return std::nullopt;
  }
  return DataFolder{path};
}

void keep_cases(Scenario& scenario, const std::string& file, const std::vector<std::string>& names,
                Diagnostics& diagnostics) {
  if (names.empty()) return;
  std::vector<std::string> known;
  for (const Case& c : scenario.cases) known.push_back(c.name);
  for (const std::string& wanted : names) {
    if (std::find(known.begin(), known.end(), wanted) != known.end()) continue;
    diagnostics.error({},
                      fmt::format("{} has no case {}{}", file, config::in_quotes(wanted), did_you_mean(wanted, known)));
  }
  std::erase_if(scenario.cases,
                [&names](const Case& c) { return std::find(names.begin(), names.end(), c.name) == names.end(); });
}

void print(const Diagnostics& diagnostics, bool quiet) {
  for (const Diagnostic& d : diagnostics.all()) {
    const bool wrong = d.severity == Severity::error || d.severity == Severity::unsupported;
    if (wrong || !quiet) fmt::print(stderr, "{}\n", to_string(d));
  }
}

int fail(const std::string& message) {
  fmt::print(stderr, "foretrain: error: {}\n", message);
  return kBadInput;
}

}  // namespace foretrain::cli
