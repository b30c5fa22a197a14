#include "sim/calibration/validate.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "sim/calibration/accuracy_doc.h"
#include "sim/cli/command.h"
#include "sim/cli/help.h"
#include "sim/cli/output.h"
#include "sim/report/csv.h"
#include "sim/report/json.h"
#include "sim/report/table.h"
#include "sim/scenario/run_notes.h"

namespace foretrain::cli {
namespace {

struct ValidateOptions : CommonOptions {
  std::vector<std::string> files;
  bool every_case = false;
  std::string residuals, markdown;  // files to write; "-" is standard output, empty is none
  std::string flags, peers;         // files to read: what is known of the runs, other predictors
};

// All files are read before any is judged, so that everything wrong is reported at once.
std::optional<std::vector<MeasuredFile>> load_files(const ValidateOptions& options, const DataFolder& data,
                                                    const RunNotes& notes, Diagnostics& diagnostics) {
  std::vector<MeasuredFile> files;
  for (const std::string& path : options.files) {
    if (std::optional<MeasuredFile> file = load_measured(path, data, notes, diagnostics))
      files.push_back(std::move(*file));
  }
  if (diagnostics.has_errors()) return std::nullopt;
  return files;
}

ErrorBars error_bars_of(const std::vector<MeasuredFile>& files, const Validation& validation, const RunNotes& notes) {
  ErrorBars bars{residuals_of(files, validation, notes.flags), {}};
  bars.model = fit_error_model(bars.residuals);
  return bars;
}

int validate_files(const ValidateOptions& options) {
  const std::vector<std::string> outputs = {options.json, options.csv, options.residuals, options.markdown};
  if (std::count(outputs.begin(), outputs.end(), "-") > 1)
    return fail(options.words, message("only one text can go to standard output"));
  Diagnostics diagnostics;
  const std::optional<DataFolder> data = find_data(options, diagnostics);
  const auto notes = options.flags.empty() ? RunNotes() : load_run_notes(options.flags, diagnostics);
  const auto files = data ? load_files(options, *data, notes.value_or(RunNotes()), diagnostics) : std::nullopt;
  const auto environment = files ? load_environment(*data, diagnostics) : std::nullopt;
  const auto peers = options.peers.empty() ? std::vector<Peer>() : load_peers(options.peers, diagnostics);
  const auto left_out = data ? load_left_out(*data, diagnostics) : std::vector<LeftOut>();
  print(diagnostics, options.words, options.quiet);
  if (!environment || !notes || !peers) return kBadInput;

  const Simulate simulate = [&](const Case& c) {
    return simulate_case(c, *environment, {.with_advice = false, .with_elasticity = false});
  };
  const Validation validation = validate(*files, simulate, threads_of(options));
  const int delivered = deliver(
      options, [&] { return report::validation_table(validation, standard_output(options), options.every_case); },
      {{options.json, [&] { return report::validation_json(validation); }},
       {options.csv, [&] { return report::validation_csv(validation); }},
       {options.residuals, [&] { return to_csv(error_bars_of(*files, validation, *notes)); }},
       {options.markdown, [&] {
          const ErrorBars bars = error_bars_of(*files, validation, *notes);
          return accuracy_markdown({*files, validation, *notes, bars, *peers, left_out});
        }}});
  for (const Comparison& c : validation.cases) {
    if (!c.failure.empty()) fmt::print(stderr, "foretrain: internal error in {}: {}\n", c.name, c.failure);
  }
  return delivered == kAnswered && validation.summary.failures > 0 ? kOwnFault : delivered;
}

}  // namespace

Command validate_command(CLI::App& program, const CommonOptions& common) {
  const report::Words& words = common.words;
  CLI::App& parser = *program.add_subcommand("validate", words("compare predictions with measured runs"));
  const auto options = starting_from<ValidateOptions>(common);
  parser
      .add_option("FILE", options->files,
                  words("files of measured runs (YAML: scenarios with a `measured` block a case)"))
      ->required();
  parser.add_flag("--all", options->every_case, words("list every case, not only the worst"));
  parser
      .add_option("--residuals", options->residuals,
                  words("write the errors of the runs, which error bars are made of (CSV)"))
      ->type_name("FILE");
  parser.add_option("--markdown", options->markdown, words("write a page about how good the predictions are"))
      ->type_name("FILE");
  parser
      .add_option("--flags", options->flags,
                  words("what is known of the runs (YAML): which look wrong and do not count for error bars, and which "
                        "are read with corrections"))
      ->type_name("FILE");
  parser.add_option("--peers", options->peers, words("what other predictors reach on the runs (YAML), for the page"))
      ->type_name("FILE");
  add_output_options(parser, *options);
  add_threads_option(parser, *options);
  add_data_option(parser, *options);
  add_examples(
      parser, words,
      {{"foretrain validate tests/scenario/data/sc21-megatron.yaml"},
       {"foretrain validate measured/*.yaml --json - | jq .summary"},
       {"foretrain validate measured/*.yaml --flags flags.yaml --residuals residuals.csv --markdown accuracy.md"}},
      words("Cases that need something that is not simulated yet are listed as refused. A case that makes foretrain "
            "fail is\nlisted, and the exit status is then 3."));
  return {&parser, [options] { return validate_files(*options); }};
}

}  // namespace foretrain::cli
