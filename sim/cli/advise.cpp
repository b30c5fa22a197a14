#include "sim/planner/advise.h"

#include <memory>
#include <stdexcept>

#include "sim/cli/command.h"
#include "sim/cli/help.h"
#include "sim/cli/output.h"
#include "sim/cli/scenario_source.h"
#include "sim/config/quote.h"
#include "sim/config/reader.h"
#include "sim/report/advise_report.h"

namespace foretrain::cli {
namespace {

struct AdviseCommandOptions : CommonOptions {
  ScenarioSource source;
  std::string deadline, tokens, mean_tokens;
};

// A flag's positive number with its unit; 0 if the flag was not given.
double read_flag(const char* flag, const std::string& text, config::Unit unit, const char* example,
                 Diagnostics& diagnostics) {
  if (text.empty()) return 0;
  Message why_not;
  const std::optional<double> value = config::parse_number(text, unit, why_not);
  if (value && *value > 0 && *value < 1e18) return *value;
  diagnostics.error({}, message("{} {} is no such amount; for instance {}", flag, config::in_quotes(text), example));
  return 0;
}

int advise_cases(const AdviseCommandOptions& options) {
  Diagnostics diagnostics;
  AdviseOptions how;
  how.deadline_seconds = read_flag("--deadline", options.deadline, config::Unit::seconds, "3d12h", diagnostics);
  how.tokens = read_flag("--tokens", options.tokens, config::Unit::count, "1e9", diagnostics);
  how.mean_tokens = read_flag("--mean-tokens", options.mean_tokens, config::Unit::count, "600", diagnostics);
  how.search.threads = threads_of(options);
  const auto asked = load_to_simulate(options.source, options, OpenPlans::all, diagnostics);
  if (asked && how.deadline_seconds > 0) {
    for (const Case& c : asked->scenario.cases) {
      if (how.tokens > 0 || c.train.tokens > 0) continue;
      diagnostics.error(c.position, message("a deadline needs the work of {}; give --tokens or write train.tokens",
                                            config::in_quotes(c.name)));
    }
  }
  print(diagnostics, options.words, options.quiet);
  if (!asked || diagnostics.has_errors()) return kBadInput;
  const auto& [scenario, environment] = *asked;

  std::vector<Advice> cases;
  Diagnostics refused;
  for (const Case& c : scenario.cases) {
    try {
      if (auto advice = advise(c, environment, how, refused)) cases.push_back(std::move(*advice));
    } catch (const std::overflow_error&) {
      refused.error(c.position, message("{} is too large to simulate", config::in_quotes(c.name)));
    }
  }
  print(refused, options.words);
  if (refused.has_errors()) return kBadInput;
  return deliver(options, [&] { return report::advice_table(scenario.title, cases, standard_output(options)); },
                 {{options.json, [&] { return report::advice_json(scenario.title, cases); }}});
}

}  // namespace

Command advise_command(CLI::App& program, const CommonOptions& common) {
  const report::Words& words = common.words;
  CLI::App& parser =
      *program.add_subcommand("advise", words("one card, several or a cluster, and what is free to try first"));
  const auto options = starting_from<AdviseCommandOptions>(common);
  parser.add_option("--deadline", options->deadline, words("time for the whole job, such as 3d12h"))->type_name("TIME");
  parser.add_option("--tokens", options->tokens, words("tokens of the whole job (default: train.tokens)"))
      ->type_name("N");
  parser
      .add_option("--mean-tokens", options->mean_tokens,
                  words("of a sample that is padded to seq_len: what packing would save"))
      ->type_name("N");
  add_scenario_options(parser, words, options->source,
                       words("scenario (YAML); its plan is left aside but for offload and order"));
  add_output_options(parser, *options, false);
  add_threads_option(parser, *options);
  add_data_option(parser, *options);
  add_examples(parser, words,
               {{"foretrain advise my-model.yaml"},
                {"foretrain advise --model llama-2-7b --gpu rtx-4090 --gpus 8 --seq-len 2048 --global-batch 32"},
                {"foretrain advise my-model.yaml --tokens 1e9 --deadline 3d --mean-tokens 600"}},
               words("Sizes go from one card to the scenario's cluster, each with its best plan; the smallest that "
                     "does is advised."));
  return {&parser, [options] {
            return options->source.show ? show_scenario(options->source, *options, OpenPlans::all)
                                        : advise_cases(*options);
          }};
}

}  // namespace foretrain::cli
