#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <new>
#include <stdexcept>

#include "sim/base/parallel.h"
#include "sim/calibration/confidence.h"
#include "sim/cli/command.h"
#include "sim/cli/help.h"
#include "sim/cli/output.h"
#include "sim/cli/scenario_source.h"
#include "sim/config/quote.h"
#include "sim/page/page.h"
#include "sim/report/csv.h"
#include "sim/report/json.h"
#include "sim/report/table.h"
#include "sim/trace/gzip.h"
#include "sim/trace/trace.h"

namespace foretrain::cli {
namespace {

struct RunOptions : CommonOptions {
  ScenarioSource source;
  std::string trace;  // file, "-" for standard output
  bool trace_kernels = false;
};

// A legal question may still be out of all proportion; such cases are reported, and nothing is answered.
std::vector<CaseReport> simulate(const Scenario& scenario, const Environment& environment, int threads,
                                 bool with_pieces, Diagnostics& diagnostics) {
  const std::vector<Case>& cases = scenario.cases;
  std::vector<CaseReport> reports(cases.size());
  std::vector<Message> refused(cases.size());
  parallel_for(cases.size(), threads, [&](std::size_t i) {
    try {
      reports[i] = simulate_case(cases[i], environment, {.with_pieces = with_pieces});
    } catch (const std::overflow_error&) {
      refused[i] = message("one step would take more than 50 days");
    } catch (const std::domain_error&) {  // of a single duration
      refused[i] = message("one step would take more than 50 days");
    } catch (const std::bad_alloc&) {
      refused[i] = message("its step has too many tasks for the memory of this machine; use fewer micro-batches");
    }
  });
  for (std::size_t i = 0; i < cases.size(); ++i) {
    if (refused[i].empty()) continue;
    diagnostics.error(cases[i].position,
                      message("{} cannot be simulated: {}", config::in_quotes(cases[i].name), refused[i]));
  }
  return reports;
}

void write_trace(const std::vector<CaseReport>& cases, const RunOptions& options, const Output::Sink& sink) {
  const trace::Options what{options.trace_kernels};
  if (!options.trace.ends_with(".gz")) return trace::write(cases, what, sink);
  trace::Gzip compressed(sink);
  trace::write(cases, what, [&](std::string_view text) { compressed.write(text); });
  compressed.finish();
}

// What the trace leaves out, for people.
void note_trace(const std::vector<CaseReport>& cases, const RunOptions& options) {
  const Message shown = trace::ranks_shown(cases);
  if (!options.trace.empty() && !options.quiet && !shown.empty()) {
    fmt::print(stderr, "{}\n", options.words("foretrain: note: {}", shown));
  }
}

int run(const RunOptions& options) {
  Diagnostics diagnostics;
  const auto asked = load_to_simulate(options.source, options, OpenPlans::automatic, diagnostics);
  const auto error_bars = asked ? load_error_bars(asked->environment.data, diagnostics) : std::nullopt;
  const auto page = error_bars ? page_template(options, asked->environment.data, diagnostics) : std::nullopt;
  const bool ready = error_bars && !diagnostics.has_errors();
  print(diagnostics, options.words, options.quiet);
  if (!ready) return kBadInput;

  const auto& [scenario, environment] = *asked;
  Diagnostics refused;
  report::RunReport report{scenario.title, scenario.ask, {}, {}};
  report.cases = simulate(scenario, environment, threads_of(options), options.trace_kernels, refused);
  print(refused, options.words);
  if (refused.has_errors()) return kBadInput;
  for (CaseReport& c : report.cases) add_error_bar(c, *error_bars);
  report.verdict = judge(scenario, report.cases, [&](const CaseReport& winner, const CaseReport& second, double ratio) {
    return order_likelihood(winner, second, ratio, *error_bars);
  });
  note_trace(report.cases, options);
  return deliver(options, [&] { return report::run_table(report, standard_output(options)); },
                 {{options.json, [&] { return report::run_json(report); }},
                  {options.csv, [&] { return report::run_csv(report); }},
                  {options.html, [&] { return page::run_page(report, environment, *page, origin_of(options)); }},
                  {options.trace, {}, [&](const Output::Sink& sink) { write_trace(report.cases, options, sink); }}});
}

}  // namespace

Command run_command(CLI::App& program, const CommonOptions& common) {
  const report::Words& words = common.words;
  CLI::App& parser = *program.add_subcommand("run", words("simulate a scenario, compare its cases and say which wins"));
  const auto options = starting_from<RunOptions>(common);
  add_scenario_options(parser, words, options->source, words("scenario (YAML)"));
  CLI::Option* trace = parser.add_option(
      "--trace", options->trace, words("write a timeline of every case that Perfetto opens; FILE.gz is compressed"));
  trace->type_name("FILE");
  parser
      .add_flag("--trace-kernels", options->trace_kernels,
                words("the timeline shows the kernels of every pass as well"))
      ->needs(trace);
  add_output_options(parser, *options);
  add_html_option(parser, *options);
  add_threads_option(parser, *options);
  add_data_option(parser, *options);
  add_examples(parser, words,
               {{"foretrain run scenarios/8x40g-vs-4x80g.yaml"},
                {"foretrain run --model llama-2-7b --gpu a100-40g --gpus 8 --zero 2 --seq-len 4096 --micro-batch 1"},
                {"foretrain run --model llama-2-7b --vary gpu=a100-40g:8,a100-80g:4 --vary zero=2,3"},
                {"foretrain run my-question.yaml --json answer.json --csv answer.csv"},
                {"foretrain run my-question.yaml --html answer.html"},
                {"foretrain run my-question.yaml --case '8 x A100-40G' --json - | jq '.cases[0].breakdown_s'"},
                {"foretrain run my-question.yaml --case '8 x A100-40G' --trace step.json.gz",
                 words("(open it in ui.perfetto.dev)")}},
               words("A plan that does not fit in memory is an answer (exit status 0), with what would make it fit."));
  return {&parser, [&parser, options] {
            options->command = command_line(parser);
            return options->source.show ? show_scenario(options->source, *options, OpenPlans::automatic)
                                        : run(*options);
          }};
}

}  // namespace foretrain::cli
