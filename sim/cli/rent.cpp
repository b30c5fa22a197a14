#include "sim/planner/rent.h"

#include <memory>

#include "sim/calibration/confidence.h"
#include "sim/cli/command.h"
#include "sim/cli/help.h"
#include "sim/cli/output.h"
#include "sim/cli/progress.h"
#include "sim/report/rent_report.h"

namespace foretrain::cli {
namespace {

struct RentCommandOptions : CommonOptions {
  std::string file;
  RentOverrides overrides;
  bool all = false;
};

int rent_machines(const RentCommandOptions& options) {
  Diagnostics diagnostics;
  const std::optional<DataFolder> data = find_data(options, diagnostics);
  const auto question = data ? load_rent_question(options.file, *data, diagnostics, options.overrides) : std::nullopt;
  const auto environment = question ? load_environment(*data, diagnostics) : std::nullopt;
  const auto error_bars = environment ? load_error_bars(*data, diagnostics) : std::nullopt;
  const auto page = error_bars ? page_template(options, *data, diagnostics) : std::nullopt;
  print(diagnostics, options.words, options.quiet);
  if (!error_bars || diagnostics.has_errors()) return kBadInput;

  RentOptions how;
  how.threads = threads_of(options);
  how.add_error_bar = [&](CaseReport& report) { add_error_bar(report, *error_bars); };
  how.stop = &stop_on_interrupt();
  RentAnswer answer;
  {
    ProgressLine line(options);
    how.progress = [&](std::size_t done, std::size_t of) {
      line.show(0, static_cast<double>(done) / static_cast<double>(of), options.words("{} of {} machines", done, of));
    };
    answer = rent(*question, *environment, how);
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
  parser.add_option("FILE", options->file, words("question (YAML): a job as in a scenario, and what to rent it on"))
      ->required();
  parser
      .add_option("--offers", options->overrides.offers, words("offers in place of the question's: a file or a name"))
      ->type_name("FILE")
      ->allow_extra_args(false);
  parser.add_option("--deadline", options->overrides.deadline, words("in place of the question's, such as 3d12h"))
      ->type_name("TIME");
  parser.add_option("--budget", options->overrides.budget, words("in place of the question's, such as 2000CNY"))
      ->type_name("MONEY");
  parser.add_flag("--all", options->all, words("show every machine that was simulated"));
  add_output_options(parser, *options);
  add_html_option(parser, *options);
  add_threads_option(parser, *options);
  add_data_option(parser, *options);
  add_examples(parser, words,
               {{"foretrain rent scenarios/rent/3090-to-a100-40g.yaml"},
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
