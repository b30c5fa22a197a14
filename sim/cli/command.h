#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/diagnostics.h"
#include "sim/hardware/gpu.h"
#include "sim/report/words.h"
#include "sim/scenario/scenario.h"

namespace foretrain::cli {

// What a command ends with (design of the exit status: 0 answered, 2 bad input or usage, 3 a fault of our own).
enum Status : int { kAnswered = 0, kBadInput = 2, kOwnFault = 3 };

// Options that commands share.
struct CommonOptions {
  std::string data;       // folder given with --data
  std::string json, csv;  // file, "-" for standard output, empty for none
  std::string html;       // likewise, of commands that make a page
  std::string command;    // as it was given; it stands on the page
  std::string language;   // --lang, else that of the locale; empty: neither asks for one that is spoken here
  report::Words words;    // of that language
  bool quiet = false;
  int threads = 0;  // 0: as many as the machine has
};

// What is said about the command line before all of it is parsed, or though it cannot be: the language and its words
// alone. The words are those of the data folder that it names; English if there is none.
CommonOptions spoken_by(int argc, const char* const* argv);

// Options of a command that begin with those.
template <class Options>
std::shared_ptr<Options> starting_from(const CommonOptions& common) {
  auto options = std::make_shared<Options>();
  static_cast<CommonOptions&>(*options) = common;
  return options;
}

// A subcommand of the command line and what it does once its options are parsed.
struct Command {
  CLI::App* parser = nullptr;
  std::function<int()> act;
};

Command run_command(CLI::App& program, const CommonOptions& common);
Command plan_command(CLI::App& program, const CommonOptions& common);
Command scale_command(CLI::App& program, const CommonOptions& common);
Command explain_command(CLI::App& program, const CommonOptions& common);
Command diagnose_command(CLI::App& program, const CommonOptions& common);
Command advise_command(CLI::App& program, const CommonOptions& common);
Command rent_command(CLI::App& program, const CommonOptions& common);
Command validate_command(CLI::App& program, const CommonOptions& common);
Command memory_command(CLI::App& program, const CommonOptions& common);
Command schema_command(CLI::App& program, const CommonOptions& common);
Command init_command(CLI::App& program, const CommonOptions& common);
Command import_command(CLI::App& program, const CommonOptions& common);
Command export_command(CLI::App& program, const CommonOptions& common);
Command catalog_command(CLI::App& program, const CommonOptions& common);
Command calibrate_command(CLI::App& program, const CommonOptions& common);
Command check_claims_command(CLI::App& program, const CommonOptions& common);
Command lesson_command(CLI::App& program, const CommonOptions& common);

// Options that commands share.
void add_language_option(CLI::App& parser, CommonOptions& options);
void add_data_option(CLI::App& parser, CommonOptions& options);
void add_output_options(CLI::App& parser, CommonOptions& options, bool with_csv = true);
void add_html_option(CLI::App& parser, CommonOptions& options);
void add_threads_option(CLI::App& parser, CommonOptions& options);
int threads_of(const CommonOptions& options);

// --data, else $FORETRAIN_DATA, else the sources this program was built from. Reported if there is no such data.
std::optional<DataFolder> find_data(const CommonOptions& options, Diagnostics& diagnostics);

// Leaves only the cases of these names, in the scenario's order; all if there are none. Reports names that it lacks.
void keep_cases(Scenario& scenario, const std::string& file, const std::vector<std::string>& names,
                Diagnostics& diagnostics);

// The command that was given, fit for a shell: the program's and the subcommand's name, and every option with its
// values.
std::string command_line(const CLI::App& subcommand);

// To standard error, in order. Warnings and notes are left out when quiet.
void print(const Diagnostics& diagnostics, const report::Words& words, bool quiet = false);
// One that has no place in a file.
int fail(const report::Words& words, const Message& message);

}  // namespace foretrain::cli
