#include "sim/cli/command.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "sim/base/parallel.h"
#include "sim/config/quote.h"

namespace foretrain::cli {

void add_language_option(CLI::App& parser, CommonOptions& options) {
  parser.add_option("--lang", options.language, options.words("language: en or zh (default: that of the locale)"))
      ->check(CLI::IsMember({"en", "zh"}));
}

void add_data_option(CLI::App& parser, CommonOptions& options) {
  parser
      .add_option("--data", options.data,
                  options.words("folder with hardware/ and configs/ (default: $FORETRAIN_DATA)"))
      ->type_name("DIR");
}

void add_output_options(CLI::App& parser, CommonOptions& options, bool with_csv) {
  CLI::Option* json =
      parser.add_option("--json", options.json, options.words("write JSON to a file; - is standard output"));
  json->type_name("FILE");
  if (with_csv)
    parser.add_option("--csv", options.csv, options.words("write CSV to a file; - is standard output"))
        ->type_name("FILE");
  parser.add_flag("-q,--quiet", options.quiet, options.words("no table and no warnings"));
  add_language_option(parser, options);
  parser.final_callback([&options] {
    if (!options.json.empty() && options.json == options.csv) {
      throw CLI::ValidationError("--json and --csv", "cannot both be written to " + options.json);
    }
  });
}

void add_html_option(CLI::App& parser, CommonOptions& options) {
  parser.add_option("--html", options.html, options.words("write a page with pictures; it needs no network"))
      ->type_name("FILE");
}

void add_threads_option(CLI::App& parser, CommonOptions& options) {
  parser
      .add_option("--threads", options.threads,
                  options.words("cases simulated at the same time (default: one a processor)"))
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
    diagnostics.error({},
                      message("no data in {}: there is no folder {}{}; name another with --data", path, path, part));
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
    diagnostics.error({}, message("{} has no case {}{}", file, config::in_quotes(wanted), did_you_mean(wanted, known)));
  }
  std::erase_if(scenario.cases,
                [&names](const Case& c) { return std::find(names.begin(), names.end(), c.name) == names.end(); });
}

namespace {

std::string quoted_for_shell(const std::string& text) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%";
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string::npos) return text;
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

}  // namespace

std::string command_line(const CLI::App& subcommand) {
  std::string line = subcommand.get_parent()->get_name() + " " + subcommand.get_name();
  for (const CLI::Option* option : subcommand.get_options()) {
    const bool is_flag = option->get_items_expected_max() == 0;
    if (is_flag && option->count() > 0) line += " " + option->get_name();
    if (is_flag) continue;
    for (const std::string& value : option->results()) {
      if (!option->get_positional()) line += " " + option->get_name();
      line += " " + quoted_for_shell(value);
    }
  }
  return line;
}

void print(const Diagnostics& diagnostics, const report::Words& words, bool quiet) {
  for (const Diagnostic& d : diagnostics.all()) {
    const bool wrong = d.severity == Severity::error || d.severity == Severity::unsupported;
    if (wrong || !quiet) fmt::print(stderr, "{}\n", words(as_message(d)));
  }
}

int fail(const report::Words& words, const Message& message) {
  fmt::print(stderr, "{}\n", words("foretrain: error: {}", message));
  return kBadInput;
}

}  // namespace foretrain::cli
