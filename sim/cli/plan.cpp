#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <memory>
#include <stdexcept>

#include "sim/cli/command.h"
#include "sim/cli/output.h"
#include "sim/cli/scenario_source.h"
#include "sim/config/quote.h"
#include "sim/config/reader.h"
#include "sim/planner/planner.h"
#include "sim/planner/space.h"
#include "sim/report/figures.h"
#include "sim/report/plan_report.h"

namespace foretrain::cli {
namespace {

// Plans that are shown; of more, a picture shows what they trade for each other.
constexpr std::size_t kTop = 5, kTopOfPage = 20;

struct PlanOptions : CommonOptions {
  ScenarioSource source;
  std::string fix, max_memory;
  std::optional<std::size_t> top;
};

// Set by Ctrl-C: the search then answers with what it has.
std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free);

void interrupt(int) {
  interrupted = true;
  std::signal(SIGINT, SIG_DFL);  // a second one ends the program
}

// "tp=8,zero=1" in the words of a scenario's plan.
std::optional<PlanRequest> read_fixed(const std::string& text, Diagnostics& diagnostics) {
  std::string yaml = "{";
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size()), equals = text.find('=', begin);
    if (equals >= end) {
      diagnostics.error({}, fmt::format("--fix {} is not of the form tp=8,zero=1", config::in_quotes(text)));
      return std::nullopt;
    }
    yaml += text.substr(begin, equals - begin) + ": " + text.substr(equals + 1, end - equals - 1) + ", ";
    begin = end + 1;
  }
  const auto node = config::parse_yaml(yaml + "}", "--fix", diagnostics);
  return node ? read_plan(*node, diagnostics) : std::nullopt;
}

std::optional<Bytes> read_memory(const std::string& text, Diagnostics& diagnostics) {
  std::string why_not;
  const std::optional<double> bytes = config::parse_number(text, config::Unit::gigabytes, why_not);
  if (bytes && *bytes > 0) return Bytes{*bytes};
  diagnostics.error(
      {}, fmt::format("--max-memory {} is no amount of memory; for instance 70GB or 65GiB", config::in_quotes(text)));
  return std::nullopt;
}

// Applies what the command line says to the cases it asks for.
bool prepare(Scenario& scenario, const PlanOptions& options, Diagnostics& diagnostics) {
  std::optional<PlanRequest> fixed;
  if (!options.fix.empty()) fixed = read_fixed(options.fix, diagnostics);
  std::optional<Bytes> memory;
  if (!options.max_memory.empty()) memory = read_memory(options.max_memory, diagnostics);
  for (Case& c : scenario.cases) {
    if (fixed) c.open_plan = with_fixed(*c.open_plan, *fixed);
    if (memory) c.cluster.gpu.memory = std::min(c.cluster.gpu.memory, *memory);
  }
  return !diagnostics.has_errors();
}

void show_progress(const SearchCounts& counts, Time best) {
  fmt::print(stderr, "\r{} plans, {} simulated, best {}   ", counts.legal, counts.simulated,
             best > Time::zero() ? report::duration(best) : "none yet");
}

int plan(const PlanOptions& options) {
  Diagnostics diagnostics;
  const std::optional<DataFolder> data = find_data(options, diagnostics);
  std::optional<Scenario> scenario = data ? load(options.source, *data, diagnostics, OpenPlans::all) : std::nullopt;
  const auto environment = scenario ? load_environment(*data, diagnostics) : std::nullopt;
  const auto page = environment ? page_template(options, *data, diagnostics) : std::nullopt;
  const bool ready = environment && prepare(*scenario, options, diagnostics);
  print(diagnostics, options.quiet);
  if (!ready || diagnostics.has_errors()) return kBadInput;

  const bool shows_progress = !options.quiet && ::isatty(STDERR_FILENO) == 1;
  PlannerOptions search{options.top.value_or(page ? kTopOfPage : kTop), threads_of(options), &interrupted, {}};
  if (shows_progress) search.progress = show_progress;
  std::signal(SIGINT, interrupt);
  std::vector<PlanAnswer> answers;
  std::vector<double> seconds;
  Diagnostics refused;
  for (const Case& c : scenario->cases) {
    if (interrupted) break;
    const auto begin = std::chrono::steady_clock::now();
    if (auto answer = find_plans(c, *environment, search, refused)) answers.push_back(std::move(*answer));
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  if (shows_progress) fmt::print(stderr, "\r{:60}\r", "");
  print(refused);
  if (refused.has_errors()) return kBadInput;
  return deliver(
      options,
      [&] { return report::plans_table(scenario->title, answers, seconds, search.threads, standard_output(options)); },
      {{options.json, [&] { return report::plans_json(scenario->title, answers); }},
       {options.html,
        [&] { return page::plan_page(scenario->title, answers, *environment, *page, origin_of(options)); }}});
}

}  // namespace

Command plan_command(CLI::App& program) {
  CLI::App& parser = *program.add_subcommand("plan", "find the fastest plans for the cases of a scenario");
  const auto options = std::make_shared<PlanOptions>();
  add_scenario_options(parser, options->source,
                       "scenario (YAML); what a case's plan says is fixed, the rest is looked for");
  parser
      .add_option("--top", options->top, fmt::format("plans to show (default: {}, with a page {})", kTop, kTopOfPage))
      ->check(CLI::Range(1, 1000));
  parser.add_option("--fix", options->fix, "values of the plan that are fixed, such as tp=8,zero=1")
      ->type_name("K=V,...");
  parser.add_option("--max-memory", options->max_memory, "memory of a GPU to use at most, such as 70GB")
      ->type_name("SIZE");
  add_output_options(parser, *options, false);
  add_html_option(parser, *options);
  add_threads_option(parser, *options);
  add_data_option(parser, *options);
  parser.footer(
      "Examples:\n"
      "  foretrain plan my-question.yaml\n"
      "  foretrain plan --model llama-2-13b --gpu a100-80g --gpus 8 --global-batch 128 --zero 2\n"
      "  foretrain plan scenarios/gpt3-175b-1024xa100.yaml --fix tp=8 --max-memory 70GB --top 3\n"
      "  foretrain plan scenarios/which-plan.yaml --html plans.html\n"
      "Ctrl-C ends the search with the best plans so far.");
  return {&parser, [&parser, options] {
            options->command = command_line(parser);
            return options->source.show ? show_scenario(options->source, *options, OpenPlans::all) : plan(*options);
          }};
}

}  // namespace foretrain::cli
