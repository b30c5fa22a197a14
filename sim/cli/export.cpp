#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <memory>

#include "sim/analysis/case_report.h"
#include "sim/cli/command.h"
#include "sim/cli/help.h"
#include "sim/cli/output.h"
#include "sim/cli/scenario_source.h"
#include "sim/config/quote.h"
#include "sim/launch/launch.h"

namespace foretrain::cli {
namespace {

struct ExportOptions : CommonOptions {
  ScenarioSource source;
};

// The only case; nullptr and why where there are several.
const Case* only_case(const Scenario& scenario, Diagnostics& diagnostics) {
  if (scenario.cases.size() == 1) return &scenario.cases.front();
  std::vector<std::string> names;
  for (const Case& c : scenario.cases) names.push_back(config::in_quotes(c.name));
  diagnostics.error({},
                    message("there are {} cases; choose one with --case: {}", names.size(), fmt::join(names, ", ")));
  return nullptr;
}

// What simulation finds of a plan: the largest micro-batch that fits, work dealt out by speed.
Case with_whole_plan(const Case& c, const Environment& environment) {
  if (!c.micro_batch_auto && !c.plan.to_balance.any()) return c;
  return simulate_case(c, environment, {.with_advice = false, .with_elasticity = false}).subject;
}

int write_settings(const ExportOptions& options) {
  Diagnostics diagnostics;
  const auto asked = load_to_simulate(options.source, options, OpenPlans::automatic, diagnostics);
  const Case* subject = asked && !diagnostics.has_errors() ? only_case(asked->scenario, diagnostics) : nullptr;
  std::optional<LaunchSettings> settings;
  if (subject != nullptr) settings = launch_settings(with_whole_plan(*subject, asked->environment));
  if (subject != nullptr && !settings) {
    diagnostics.error(subject->position,
                      message("nothing is known of what {} is launched with; known are Megatron-LM and "
                              "DeepSpeed",
                              subject->software.name));
  }
  print(diagnostics, options.words, options.quiet);
  if (!settings) return kBadInput;
  for (const Message& left_out : settings->left_out) {
    if (!options.quiet) fmt::print(stderr, "{}\n", options.words("foretrain: note: not said here: {}", left_out));
  }
  return print_text(settings->text, options.words);
}

}  // namespace

Command export_command(CLI::App& program, const CommonOptions& common) {
  const report::Words& words = common.words;
  CLI::App& parser =
      *program.add_subcommand("export", words("make launch settings of a case's plan: flags of Megatron-LM, or "
                                              "DeepSpeed JSON"));
  const auto options = starting_from<ExportOptions>(common);
  add_scenario_options(parser, words, options->source,
                       words("scenario (YAML); with plan: auto the fastest plan is taken"));
  parser.add_flag("-q,--quiet", options->quiet, words("no warnings"));
  add_language_option(parser, *options);
  add_threads_option(parser, *options);
  add_data_option(parser, *options);
  add_examples(
      parser, words,
      {{"foretrain export scenarios/which-plan.yaml --case NVSwitch"},
       {"foretrain export --model llama-2-7b --gpu a100-80g:8 --global-batch 64 --zero 3 --plan auto > "
        "ds_config.json"}},
      words("What the tool is told elsewhere, or cannot be told, stands on standard error. `import` reads both "
            "back."));
  return {&parser, [options] {
            return options->source.show ? show_scenario(options->source, *options, OpenPlans::automatic)
                                        : write_settings(*options);
          }};
}

}  // namespace foretrain::cli
