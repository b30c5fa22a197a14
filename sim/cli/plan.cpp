#include <algorithm>
#include <memory>

#include "sim/calibration/confidence.h"
#include "sim/cli/command.h"
#include "sim/cli/help.h"
#include "sim/cli/output.h"
#include "sim/cli/scenario_source.h"
#include "sim/cli/search_progress.h"
#include "sim/config/quote.h"
#include "sim/config/reader.h"
#include "sim/planner/choice.h"
#include "sim/report/plan_report.h"

namespace foretrain::cli {
namespace {

// Plans that are shown; of more, a picture shows what they trade for each other.
constexpr std::size_t kTop = 5, kTopOfPage = 20;

struct PlanOptions : CommonOptions {
  ScenarioSource source;
  std::string fix, max_memory;
  std::optional<std::size_t> top;
  bool compare = false;
};

// The end of a value that begins at `begin`: the next comma outside brackets.
std::size_t end_of_value(const std::string& text, std::size_t begin) {
  int depth = 0;
  for (std::size_t i = begin; i < text.size(); ++i) {
    if (text[i] == '[' || text[i] == '{') ++depth;
    if (text[i] == ']' || text[i] == '}') --depth;
    if (text[i] == ',' && depth <= 0) return i;
  }
  return text.size();
}

// "tp=8,zero=1,order=[tp,dp,pp]" as values of the plan.
std::vector<FlagValue> fixed_values(const std::string& text, Diagnostics& diagnostics) {
  std::vector<FlagValue> values;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = end_of_value(text, begin), equals = text.find('=', begin);
    if (equals >= end) {
      diagnostics.error({}, message("--fix {} is not of the form tp=8,zero=1", config::in_quotes(text)));
      return {};
    }
    const std::string key = text.substr(begin, equals - begin);
    values.push_back({"--fix " + key, "plan." + key, text.substr(equals + 1, end - equals - 1)});
    begin = end + 1;
  }
  return values;
}

// What is fixed is part of the scenario, unless its plans are compared with others: then it holds for those alone.
ScenarioSource source_of(const PlanOptions& options, Diagnostics& diagnostics) {
  ScenarioSource source = options.source;
  if (options.compare) return source;
  for (FlagValue& value : fixed_values(options.fix, diagnostics)) source.values.push_back(std::move(value));
  return source;
}

std::optional<PlanRequest> fixed_of_others(const PlanOptions& options, Diagnostics& diagnostics) {
  if (!options.compare || options.fix.empty()) return std::nullopt;
  const auto fixed = case_of(fixed_values(options.fix, diagnostics), diagnostics);
  const config::Node* plan = fixed ? fixed->find("plan") : nullptr;
  return present(plan) != nullptr ? read_plan(*plan, diagnostics) : std::nullopt;
}

std::optional<Bytes> read_memory(const std::string& text, Diagnostics& diagnostics) {
  Message why_not;
  const std::optional<double> bytes = config::parse_number(text, config::Unit::gigabytes, why_not);
  if (bytes && *bytes > 0) return Bytes{*bytes};
  diagnostics.error(
      {}, message("--max-memory {} is no amount of memory; for instance 70GB or 65GiB", config::in_quotes(text)));
  return std::nullopt;
}

// What is asked about one case: the plans to look at, and the plan to compare them with.
struct Question {
  Case subject;
  std::optional<Case> own;
};

// The case with the plan that it says.
std::optional<Case> with_own_plan(const Case& c, Diagnostics& diagnostics) {
  const PlanRequest& request = *c.open_plan;
  if (request.automatic) {
    diagnostics.error(request.position, message("case {} has no plan of its own to compare with; write one, or leave "
                                                "out --compare",
                                                config::in_quotes(c.name)));
    return std::nullopt;
  }
  const auto plan = resolve_plan(request, c.model, c.train, c.cluster, c.software, diagnostics);
  if (!plan) return std::nullopt;
  Case own = c;
  own.plan = *plan;
  own.micro_batch_auto = request.micro_batch_auto;
  own.open_plan.reset();
  return own;
}

// The cases with what the command line says. What their plans say is fixed, or else compared with.
std::vector<Question> questions(const Scenario& scenario, const PlanOptions& options, Diagnostics& diagnostics) {
  const std::optional<PlanRequest> fixed = fixed_of_others(options, diagnostics);
  std::optional<Bytes> memory;
  if (!options.max_memory.empty()) memory = read_memory(options.max_memory, diagnostics);
  std::vector<Question> all;
  for (const Case& c : scenario.cases) {
    Question& question = all.emplace_back(Question{c, std::nullopt});
    Case& subject = question.subject;
    if (memory) {
      subject.cluster.gpu.memory = std::min(c.cluster.gpu.memory, *memory);
      for (Gpu& gpu : subject.cluster.other_gpus) gpu.memory = std::min(gpu.memory, *memory);
    }
    if (options.compare) {
      question.own = with_own_plan(subject, diagnostics);
      subject.open_plan = without_choices(*c.open_plan);
    }
    if (fixed) subject.open_plan = with_fixed(*subject.open_plan, *fixed);
  }
  return all;
}

// Ranges of the plans, and how sure it is that the best is faster than each of the others.
void add_confidence(PlanAnswer& answer, const ErrorBars& bars) {
  for (RankedPlan& ranked : answer.best) add_error_bar(ranked.report, bars);
  if (answer.own) add_error_bar(answer.own->plan.report, bars);
  if (answer.best.empty()) return;
  const CaseReport& best = answer.best.front().report;
  const auto compare = [&](RankedPlan& ranked) {
    const double ratio = ranked.report.step_time.seconds() / best.step_time.seconds();
    if (ratio >= 1) ranked.order_right = order_likelihood(best, ranked.report, ratio, bars);
  };
  for (std::size_t i = 1; i < answer.best.size(); ++i) compare(answer.best[i]);
  if (answer.own) compare(answer.own->plan);
}

int plan(const PlanOptions& options) {
  Diagnostics diagnostics;
  const ScenarioSource source = source_of(options, diagnostics);
  const auto asked = load_to_simulate(source, options, OpenPlans::all, diagnostics);
  const auto error_bars = asked ? load_error_bars(asked->environment.data, diagnostics) : std::nullopt;
  const auto page = error_bars ? page_template(options, asked->environment.data, diagnostics) : std::nullopt;
  std::vector<Question> all;
  if (asked) all = questions(asked->scenario, options, diagnostics);
  print(diagnostics, options.words, options.quiet);
  if (!error_bars || diagnostics.has_errors()) return kBadInput;

  const auto& [scenario, environment] = *asked;
  const std::atomic<bool>& stop = stop_on_interrupt();
  std::vector<PlanAnswer> answers;
  Diagnostics refused;
  for (const Question& question : all) {
    if (stop) {
      warn_of_no_turn(question.subject, refused);
      continue;
    }
    ProgressLine line(options);
    const std::size_t top = options.top.value_or(page ? kTopOfPage : kTop);
    PlannerOptions search{.top = top, .threads = threads_of(options), .stop = &stop};
    search.progress = shown_on(line, options.words);
    search.with_elasticity = !options.json.empty() || !options.html.empty();
    if (!options.max_memory.empty()) search.memory_share = 1.0;
    search.own = question.own ? &*question.own : nullptr;
    auto answer = find_plans(question.subject, environment, search, refused);
    if (!answer) continue;
    add_confidence(*answer, *error_bars);
    answers.push_back(std::move(*answer));
  }
  print(refused, options.words);
  if (refused.has_errors()) return kBadInput;
  return deliver(
      options,
      [&] { return report::plans_table(scenario.title, answers, threads_of(options), standard_output(options)); },
      {{options.json, [&] { return report::plans_json(scenario.title, answers); }},
       {options.html,
        [&] { return page::plan_page(scenario.title, answers, environment, *page, origin_of(options)); }}});
}

int show(const PlanOptions& options) {
  Diagnostics diagnostics;
  const ScenarioSource source = source_of(options, diagnostics);
  print(diagnostics, options.words);
  return diagnostics.has_errors() ? kBadInput : show_scenario(source, options, OpenPlans::all);
}

}  // namespace

Command plan_command(CLI::App& program, const CommonOptions& common) {
  const report::Words& words = common.words;
  CLI::App& parser = *program.add_subcommand("plan", words("find the fastest plans for the cases of a scenario"));
  const auto options = starting_from<PlanOptions>(common);
  add_scenario_options(parser, words, options->source,
                       words("scenario (YAML); what a case's plan says is fixed, the rest is looked for"));
  parser.add_option("--top", options->top, words("plans to show (default: {}, with a page {})", kTop, kTopOfPage))
      ->check(CLI::Range(1, 1000));
  parser
      .add_option("--fix", options->fix,
                  words("values of the plan that are fixed, such as tp=8,zero=1; with --compare, of the others"))
      ->type_name("K=V,...");
  parser.add_option("--max-memory", options->max_memory, words("memory of a GPU to use at most, such as 70GB"))
      ->type_name("SIZE");
  parser.add_flag("--compare", options->compare,
                  words("fix nothing that the cases' plans say: look at all plans, and say where theirs stand"));
  add_output_options(parser, *options, false);
  add_html_option(parser, *options);
  add_threads_option(parser, *options);
  add_data_option(parser, *options);
  add_examples(parser, words,
               {{"foretrain plan my-question.yaml"},
                {"foretrain plan --model llama-2-13b --gpu a100-80g --gpus 8 --global-batch 128 --zero 2"},
                {"foretrain plan scenarios/gpt3-175b-1024xa100.yaml --fix tp=8 --max-memory 70GB --top 3"},
                {"foretrain plan my-question.yaml --compare", words("is my plan a good one?")},
                {"foretrain plan scenarios/which-plan.yaml --html plans.html"}},
               words("Ctrl-C ends the search with the best plans so far."));
  return {&parser, [&parser, options] {
            options->command = command_line(parser);
            return options->source.show ? show(*options) : plan(*options);
          }};
}

}  // namespace foretrain::cli
