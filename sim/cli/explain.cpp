#include "sim/analysis/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <stdexcept>

#include "sim/cli/command.h"
#include "sim/cli/help.h"
#include "sim/cli/output.h"
#include "sim/cli/scenario_source.h"
#include "sim/config/quote.h"
#include "sim/report/explain_report.h"

namespace foretrain::cli {
namespace {

struct ExplainOptions : CommonOptions {
  ScenarioSource source;
  std::vector<std::string> figures;
};

// Formulas of the figures that were asked for, in that order; names without one are reported.
std::vector<report::FigureFormula> asked_for(const std::vector<std::string>& figures, const CaseReport& of,
                                             Diagnostics& diagnostics) {
  std::vector<report::FigureFormula> all = report::figure_formulas(of), found;
  std::vector<std::string> known;
  for (const report::FigureFormula& f : all) known.push_back(f.figure);
  for (const std::string& figure : figures) {
    const auto at = std::find(known.begin(), known.end(), figure);
    if (at != known.end()) {
      found.push_back(all[static_cast<std::size_t>(at - known.begin())]);
    } else {
      diagnostics.error(
          {}, message("--figure {}: there is no formula of that name for {}{}; known are {}", config::in_quotes(figure),
                      config::in_quotes(of.name), did_you_mean(figure, known), fmt::join(known, ", ")));
    }
  }
  return found;
}

int explain_figures(const ExplainOptions& options, const Scenario& scenario, const Environment& environment) {
  Diagnostics wrong;
  std::vector<report::ExplainedFigures> cases;
  for (const Case& c : scenario.cases) {
    cases.push_back({c.name, asked_for(options.figures, simulate_case(c, environment), wrong)});
  }
  print(wrong, options.words);
  if (wrong.has_errors()) return kBadInput;
  return deliver(options, [&] { return report::figures_table(cases, standard_output(options)); },
                 {{options.json, [&] { return report::figures_json(scenario.title, cases); }}});
}

int explain_cases(const ExplainOptions& options) {
  Diagnostics diagnostics;
  const auto asked = load_to_simulate(options.source, options, OpenPlans::automatic, diagnostics);
  print(diagnostics, options.words, options.quiet);
  if (!asked || diagnostics.has_errors()) return kBadInput;
  const auto& [scenario, environment] = *asked;

  try {
    if (!options.figures.empty()) return explain_figures(options, scenario, environment);
    std::vector<Explanation> cases;
    for (const Case& c : scenario.cases) cases.push_back(explain(c, environment, threads_of(options)));
    return deliver(options, [&] { return report::explain_table(scenario.title, cases, standard_output(options)); },
                   {{options.json, [&] { return report::explain_json(scenario.title, cases); }}});
  } catch (const std::overflow_error&) {
    return fail(options.words, message("one of the steps is too large to simulate or takes more than 50 days"));
  } catch (const std::domain_error&) {
    return fail(options.words, message("one of the steps takes more than 50 days"));
  }
}

}  // namespace

Command explain_command(CLI::App& program, const CommonOptions& common) {
  const report::Words& words = common.words;
  CLI::App& parser = *program.add_subcommand("explain", words("where the time of a step goes and what would help"));
  const auto options = starting_from<ExplainOptions>(common);
  add_scenario_options(parser, words, options->source, words("scenario (YAML)"));
  parser
      .add_option("--figure", options->figures,
                  words("formula and inputs of a figure, by its name in JSON (may be repeated)"))
      ->type_name("NAME")
      ->allow_extra_args(false);
  add_output_options(parser, *options, false);
  add_threads_option(parser, *options);
  add_data_option(parser, *options);
  add_examples(
      parser, words,
      {{"foretrain explain scenarios/gpt3-175b-1024xa100.yaml"},
       {"foretrain explain --model llama-2-7b --gpu a100-80g --gpus 8 --zero 3"},
       {"foretrain explain my-question.yaml --case '8 x A100-40G' --json -"},
       {"foretrain explain my-question.yaml --figure mfu --figure memory.gpu_peak_bytes"}},
      words("An elasticity says by how many percent the step is shorter if that piece of hardware is 1 % faster."));
  return {&parser, [options] {
            return options->source.show ? show_scenario(options->source, *options, OpenPlans::automatic)
                                        : explain_cases(*options);
          }};
}

}  // namespace foretrain::cli
