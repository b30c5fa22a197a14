#include <algorithm>
#include <memory>

#include "sim/cli/command.h"
#include "sim/cli/help.h"
#include "sim/cli/output.h"
#include "sim/cli/progress.h"
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

// "tp=8,zero=1,order=[tp,dp,pp]" in the words of a scenario's plan.
std::optional<PlanRequest> read_fixed(const std::string& text, Diagnostics& diagnostics) {
  std::string yaml = "{";
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = end_of_value(text, begin), equals = text.find('=', begin);
    if (equals >= end) {
      diagnostics.error({}, message("--fix {} is not of the form tp=8,zero=1", config::in_quotes(text)));
      return std::nullopt;
    }
    yaml += text.substr(begin, equals - begin) + ": " + text.substr(equals + 1, end - equals - 1) + ", ";
    begin = end + 1;
  }
  const auto node = config::parse_yaml(yaml + "}", "--fix", diagnostics);
  return node ? read_plan(*node, diagnostics) : std::nullopt;
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
  std::optional<PlanRequest> fixed;
  if (!options.fix.empty()) fixed = read_fixed(options.fix, diagnostics);
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

void show_progress(ProgressLine& line, const SearchProgress& at, const report::Words& words) {
  const bool judging = at.phase == SearchProgress::Phase::judging;
  line.show(static_cast<int>(at.phase), at.share,
            judging ? words("of the plans judged")
                    : words("of those worth simulating: {} of {} plans, best {}", at.counts.simulated, at.counts.legal,
                            at.best > Time::zero() ? Message(report::duration(at.best)) : message("none yet")));
}

int plan(const PlanOptions& options) {
  Diagnostics diagnostics;
  const auto asked = load_to_simulate(options.source, options, OpenPlans::all, diagnostics);
  const auto page = asked ? page_template(options, asked->environment.data, diagnostics) : std::nullopt;
  std::vector<Question> all;
  if (asked) all = questions(asked->scenario, options, diagnostics);
  print(diagnostics, options.words, options.quiet);
  if (!asked || diagnostics.has_errors()) return kBadInput;

  const auto& [scenario, environment] = *asked;
  const std::atomic<bool>& stop = stop_on_interrupt();
  std::vector<PlanAnswer> answers;
  Diagnostics refused;
  for (const Question& question : all) {
    if (stop) break;
    ProgressLine line(options);
    const std::size_t top = options.top.value_or(page ? kTopOfPage : kTop);
    PlannerOptions search{.top = top, .threads = threads_of(options), .stop = &stop};
    search.progress = [&](const SearchProgress& at) { show_progress(line, at, options.words); };
    search.with_elasticity = !options.json.empty() || !options.html.empty();
    if (!options.max_memory.empty()) search.memory_share = 1.0;
    search.own = question.own ? &*question.own : nullptr;
    if (auto answer = find_plans(question.subject, environment, search, refused)) answers.push_back(std::move(*answer));
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

}  // namespace

Command plan_command(CLI::App& program, const CommonOptions& common) {
  const report::Words& words = common.words;
  CLI::App& parser = *program.add_subcommand("plan", words("find the fastest plans for the cases of a scenario"));
  const auto options = starting_from<PlanOptions>(common);
  add_scenario_options(parser, words, options->source,
                       words("scenario (YAML); what a case's plan says is fixed, the rest is looked for"));
  parser.add_option("--top", options->top, words("plans to show (default: {}, with a page {})", kTop, kTopOfPage))
      ->check(CLI::Range(1, 1000));
  parser.add_option("--fix", options->fix, words("values of the plan that are fixed, such as tp=8,zero=1"))
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
            return options->source.show ? show_scenario(options->source, *options, OpenPlans::all) : plan(*options);
          }};
}

}  // namespace foretrain::cli
