#include "sim/analysis/diagnose.h"

#include <fstream>
#include <memory>
#include <stdexcept>

#include "sim/calibration/confidence.h"
#include "sim/cli/command.h"
#include "sim/cli/help.h"
#include "sim/cli/output.h"
#include "sim/cli/scenario_source.h"
#include "sim/config/quote.h"
#include "sim/report/diagnose_report.h"

namespace foretrain::cli {
namespace {

struct DiagnoseOptions : CommonOptions {
  ScenarioSource source;
  std::string log, line;
};

// Of a larger log the end: it is where a run has found its speed, or failed.
constexpr std::streamoff kMostOfALog = 16 << 20;

std::optional<std::string> text_of(const DiagnoseOptions& options, Diagnostics& diagnostics) {
  if (!options.line.empty()) return options.line;
  std::ifstream file(options.log, std::ios::binary | std::ios::ate);
  const std::streamoff size = file ? static_cast<std::streamoff>(file.tellg()) : -1;
  std::string text;
  if (size >= 0) {
    text.resize(static_cast<std::size_t>(std::min(size, kMostOfALog)));
    file.seekg(size - static_cast<std::streamoff>(text.size()));
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
  }
  if (!file) {
    diagnostics.error(
        {}, message("the log {} cannot be read; give a file, or its line with --line", config::in_quotes(options.log)));
    return std::nullopt;
  }
  return text;
}

// The one case that the log is of.
void keep_one(const Scenario& scenario, Diagnostics& diagnostics) {
  if (scenario.cases.size() == 1 || diagnostics.has_errors()) return;
  std::string names;
  for (const Case& c : scenario.cases) names += (names.empty() ? "" : ", ") + config::in_quotes(c.name);
  diagnostics.error(
      {}, message("there are {} cases; say with --case which one the log is of: {}", scenario.cases.size(), names));
}

int diagnose_run(const DiagnoseOptions& options) {
  Diagnostics diagnostics;
  if (options.log.empty() == options.line.empty())
    return fail(options.words, message("diagnose needs either --log FILE or --line TEXT"));
  const std::optional<std::string> text = text_of(options, diagnostics);
  const RunLog log = text ? read_run_log(*text) : RunLog{};
  if (text && log.empty()) {
    diagnostics.error(
        {}, message("nothing in the log is understood; give a progress bar, a line of DeepSpeed, Megatron-LM, "
                    "Hugging Face Trainer, torchtitan or LLM Foundry with a speed, or CUDA's out-of-memory sentence"));
  }
  const auto asked = load_to_simulate(options.source, options, OpenPlans::automatic, diagnostics);
  const auto error_bars = asked ? load_error_bars(asked->environment.data, diagnostics) : std::nullopt;
  if (asked) keep_one(asked->scenario, diagnostics);
  print(diagnostics, options.words, options.quiet);
  if (!error_bars || diagnostics.has_errors()) return kBadInput;

  const auto& [scenario, environment] = *asked;
  try {
    const Case& subject = scenario.cases.front();
    CaseReport report = simulate_case(subject, environment);
    add_error_bar(report, *error_bars);
    const Diagnosis diagnosis = diagnose(subject, report, log, environment, threads_of(options));
    return deliver(options, [&] { return report::diagnosis_table(diagnosis, standard_output(options)); },
                   {{options.json, [&] { return report::diagnosis_json(diagnosis); }}});
  } catch (const std::overflow_error&) {
    return fail(options.words, message("the step is too large to simulate or takes more than 50 days"));
  } catch (const std::domain_error&) {
    return fail(options.words, message("the step takes more than 50 days"));
  }
}

}  // namespace

Command diagnose_command(CLI::App& program, const CommonOptions& common) {
  const report::Words& words = common.words;
  CLI::App& parser =
      *program.add_subcommand("diagnose", words("is a run's log normal, and if not, what would explain it"));
  const auto options = starting_from<DiagnoseOptions>(common);
  add_scenario_options(parser, words, options->source, words("scenario (YAML) that describes the run"));
  CLI::Option* log = parser.add_option("--log", options->log, words("a log file; figures are medians over its lines"));
  log->type_name("FILE");
  parser.add_option("--line", options->line, words("a line of a log, or the sentence of an out-of-memory error"))
      ->type_name("TEXT")
      ->excludes(log);
  add_output_options(parser, *options, false);
  add_threads_option(parser, *options);
  add_data_option(parser, *options);
  add_examples(
      parser, words,
      {{"foretrain diagnose my-run.yaml --log train.log"},
       {"foretrain diagnose my-run.yaml --line '5/3527 [04:17<63:50:18, 65.25s/it]'"},
       {"foretrain diagnose my-run.yaml --case 'two nodes' --line 'forward: 207.71 | backward: 3509.10 | step: 49.45'"},
       {"foretrain diagnose --model llama-2-7b --gpu a100-80g --gpus 8 --zero 3 --global-batch 64 --log train.log"}},
      words("Each cause is a changed set-up that is simulated again; the measured figures say which of them fit."));
  return {&parser, [options] {
            return options->source.show ? show_scenario(options->source, *options, OpenPlans::automatic)
                                        : diagnose_run(*options);
          }};
}

}  // namespace foretrain::cli
