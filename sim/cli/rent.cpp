#include "sim/planner/rent.h"

#include <filesystem>
#include <memory>

#include "sim/cli/command.h"
#include "sim/cli/help.h"
#include "sim/cli/output.h"
#include "sim/cli/renting.h"
#include "sim/cli/scenario_source.h"
#include "sim/report/rent_report.h"

namespace foretrain::cli {
namespace {

struct RentCommandOptions : CommonOptions {
  ScenarioSource source;
  RentOverrides overrides;
  bool all = false;
};

std::optional<RentQuestion> load_question(const RentCommandOptions& options, const DataFolder& data,
                                          Diagnostics& diagnostics) {
  const std::string& file = options.source.file;
  if (file.empty() && options.source.values.empty()) {
    diagnostics.error({}, message("nothing to answer; give a question file, or --model and --tokens, for instance "
                                  "--model llama-2-7b --tokens 1e9"));
    return std::nullopt;
  }
  const auto written = file.empty() ? std::nullopt : config::parse_yaml_file(file, diagnostics);
  if (!file.empty() && !written) return std::nullopt;
  const auto document = job_with_flags(written ? &*written : nullptr, options.source.values, diagnostics);
  if (!document) return std::nullopt;
  return read_rent_question(*document, std::filesystem::path(file).parent_path().string(), data, diagnostics,
                            options.overrides);
}

int rent_machines(const RentCommandOptions& options) {
  Diagnostics diagnostics;
  const std::optional<DataFolder> data = find_data(options, diagnostics);
  const auto question = data ? load_question(options, *data, diagnostics) : std::nullopt;
  const auto environment = question ? load_environment(*data, diagnostics) : std::nullopt;
  const auto error_bars = environment ? load_error_bars(*data, diagnostics) : std::nullopt;
  const auto page = error_bars ? page_template(options, *data, diagnostics) : std::nullopt;
  print(diagnostics, options.words, options.quiet);
  if (!error_bars || diagnostics.has_errors()) return kBadInput;

  RentAnswer answer;
  {
    ProgressLine line(options);
    answer = rent(*question, *environment, renting(options, *error_bars, line));
  }
  return deliver(options, [&] { return report::rent_table(*question, answer, standard_output(options), options.all); },
                 {{options.json, [&] { return report::rent_json(*question, answer); }},
                  {options.csv, [&] { return report::rent_csv(*question, answer); }},
                  {options.html, [&] { return page::rent_page(*question, answer, *page, origin_of(options)); }}});
}

}  // namespace

Command rent_command(CLI::App& program, const CommonOptions& common) {
  const report::Words& words = common.words;
  CLI::App& parser =
      *program.add_subcommand("rent", words("which machines to rent for a job, by a deadline or for a budget"));
  const auto options = starting_from<RentCommandOptions>(common);
  parser.add_option("FILE", options->source.file,
                    words("question (YAML): a job as in a scenario, and what to rent it on"));
  parser
      .add_option("--offers", options->overrides.offers, words("offers in place of the question's: a file or a name"))
      ->type_name("FILE")
      ->allow_extra_args(false);
  parser.add_option("--deadline", options->overrides.deadline, words("in place of the question's, such as 3d12h"))
      ->type_name("TIME");
  parser.add_option("--budget", options->overrides.budget, words("in place of the question's, such as 2000CNY"))
      ->type_name("MONEY");
  parser.add_option("--currency", options->overrides.currency, words("of the answer, in place of the question's"))
      ->type_name("CODE");
  parser.add_flag("--all", options->all, words("show every machine that was simulated"));
  add_field_flags(parser, words, options->source, Variations::none);
  add_output_options(parser, *options);
  add_html_option(parser, *options);
  add_threads_option(parser, *options);
  add_data_option(parser, *options);
  add_examples(parser, words,
               {{"foretrain rent scenarios/rent/3090-to-a100-40g.yaml"},
                {"foretrain rent --model llama-2-7b --peft lora --tokens 1e9 --deadline 3d"},
                {"foretrain rent my-job.yaml --offers my-prices.yaml --deadline 3d12h --json -"},
                {"foretrain rent scenarios/rent/8x40g-or-8x80g.yaml --html machines.html"}},
               words("Offers of the catalogue: foretrain catalog offers. Machines on which the job does not fit are "
                     "listed, with why. Ctrl-C ends the search with what was found so far."));
  return {&parser, [&parser, options] {
            options->command = command_line(parser);
            return rent_machines(*options);
          }};
}

}  // namespace foretrain::cli
