#include <algorithm>
#include <memory>
#include <stdexcept>

#include "sim/cli/command.h"
#include "sim/cli/help.h"
#include "sim/cli/output.h"
#include "sim/cli/renting.h"
#include "sim/cli/scenario_source.h"
#include "sim/cli/search_progress.h"
#include "sim/config/quote.h"
#include "sim/config/reader.h"
#include "sim/report/advise_report.h"
#include "sim/scenario/document.h"

namespace foretrain::cli {
namespace {

struct AdviseCommandOptions : CommonOptions {
  ScenarioSource source;
  std::string tokens, mean_tokens;
  RentOverrides offers;  // and the deadline
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

// What is asked, as text for questions of offers and as figures for simulations of one machine.
struct Asked {
  RentOverrides offers;
  std::string tokens;
  AdviseOptions how;
};

Asked read_asked(const AdviseCommandOptions& options, Diagnostics& diagnostics) {
  Asked asked{options.offers, options.tokens, {}};
  AdviseOptions& how = asked.how;
  how.deadline_seconds = read_flag("--deadline", options.offers.deadline, config::Unit::seconds, "3d12h", diagnostics);
  how.tokens = read_flag("--tokens", options.tokens, config::Unit::count, "1e9", diagnostics);
  how.mean_tokens = read_flag("--mean-tokens", options.mean_tokens, config::Unit::count, "600", diagnostics);
  how.search.threads = threads_of(options);
  how.search.stop = &stop_on_interrupt();
  return asked;
}

// A case of the document, before a machine is known.
struct Job {
  std::string name;
  config::Node described;
};

std::optional<config::Node> load_jobs_document(const ScenarioSource& source, Diagnostics& diagnostics) {
  const bool names_machine = std::any_of(source.values.begin(), source.values.end(),
                                         [](const FlagValue& value) { return value.path.starts_with("cluster."); });
  const bool needs_no_machine =
      source.file.empty() && source.variations.empty() && !source.values.empty() && !names_machine;
  return needs_no_machine ? job_with_flags(nullptr, source.values, diagnostics) : load_document(source, diagnostics);
}

// Those of the names that were asked for. What is wrong with the document is for the reader of its cases to report.
std::vector<Job> jobs_of(const config::Node& document, const ScenarioSource& source) {
  Diagnostics said_later;
  std::vector<Job> jobs;
  const auto read = read_document(document, said_later);
  if (!read) return jobs;
  for_each_case(*read, said_later, [&](const config::Node& node, const std::string& name) {
    const bool asked =
        source.cases.empty() || std::find(source.cases.begin(), source.cases.end(), name) != source.cases.end();
    if (asked) jobs.push_back({name, node});
  });
  return jobs;
}

bool has_machine(const Job& job) { return is_written(job.described, "cluster"); }

// The three steps over what is offered. nullopt after reporting what is wrong.
std::optional<OfferedAdvice> advise_from_offers(const Job& job, const Asked& asked, const Environment& environment,
                                                const AdviseCommandOptions& options, Diagnostics& diagnostics) {
  auto question = question_of_job(job.described, asked.tokens, environment.data, asked.offers, diagnostics);
  const auto error_bars = question ? load_error_bars(environment.data, diagnostics) : std::nullopt;
  if (!error_bars) return std::nullopt;
  ProgressLine line(options);
  return advise_offers(std::move(*question), environment, renting(options, *error_bars, line), asked.how);
}

std::optional<Advice> advise_on_machine(const Case& c, const Environment& environment, AdviseOptions how,
                                        const AdviseCommandOptions& options, Diagnostics& diagnostics) {
  ProgressLine line(options);
  how.progress = sizes_shown_on(line, options.words);
  return advise(c, environment, how, diagnostics);
}

int deliver_advice(const AdviseCommandOptions& options, const std::string& title,
                   const std::vector<report::AdvisedCase>& cases) {
  return deliver(options, [&] { return report::advice_table(title, cases, standard_output(options)); },
                 {{options.json, [&] { return report::advice_json(title, cases); }}});
}

int advise_without_machine(const AdviseCommandOptions& options, const std::vector<Job>& jobs, const Asked& asked,
                           const DataFolder& data) {
  Diagnostics diagnostics;
  std::vector<report::AdvisedCase> cases;
  const auto environment = load_environment(data, diagnostics);
  for (const Job& job : jobs) {
    if (!environment) break;
    auto offered = advise_from_offers(job, asked, *environment, options, diagnostics);
    if (offered) cases.push_back({jobs.size() > 1 ? job.name : "", std::nullopt, std::move(offered)});
  }
  print(diagnostics, options.words, options.quiet);
  return diagnostics.has_errors() ? kBadInput : deliver_advice(options, "", cases);
}

int advise_cases(const AdviseCommandOptions& options) {
  Diagnostics diagnostics;
  const Asked asked = read_asked(options, diagnostics);
  const auto data = find_data(options, diagnostics);
  const auto document = data ? load_jobs_document(options.source, diagnostics) : std::nullopt;
  const std::vector<Job> jobs = document ? jobs_of(*document, options.source) : std::vector<Job>{};
  if (!diagnostics.has_errors() && !jobs.empty() && std::none_of(jobs.begin(), jobs.end(), has_machine)) {
    return advise_without_machine(options, jobs, asked, *data);
  }
  const auto loaded = document ? load_to_simulate(options.source, options, OpenPlans::all, diagnostics) : std::nullopt;
  if (loaded && asked.how.deadline_seconds > 0) {
    for (const Case& c : loaded->scenario.cases) {
      if (asked.how.tokens > 0 || c.train.tokens > 0) continue;
      diagnostics.error(c.position, message("a deadline needs the work of {}; give --tokens or write train.tokens",
                                            config::in_quotes(c.name)));
    }
  }
  print(diagnostics, options.words, options.quiet);
  if (!loaded || diagnostics.has_errors()) return kBadInput;
  const auto& [scenario, environment] = *loaded;

  std::vector<report::AdvisedCase> cases;
  Diagnostics refused;
  for (const Case& c : scenario.cases) {
    try {
      auto advice = advise_on_machine(c, environment, asked.how, options, refused);
      if (!advice) continue;
      report::AdvisedCase& advised = cases.emplace_back(report::AdvisedCase{c.name, std::move(advice), std::nullopt});
      const auto job = std::find_if(jobs.begin(), jobs.end(), [&](const Job& j) { return j.name == c.name; });
      if (advised.on_machine->recommended || !advised.on_machine->complete || job == jobs.end()) continue;
      // Where nobody asked for offers, the advice on the machine stands whatever is wrong with them.
      const bool asked_for = !asked.offers.offers.empty() || !asked.offers.budget.empty();
      Diagnostics left_alone;
      advised.offered = advise_from_offers(*job, asked, environment, options, asked_for ? refused : left_alone);
    } catch (const std::overflow_error&) {
      refused.error(c.position, message("{} is too large to simulate", config::in_quotes(c.name)));
    }
  }
  print(refused, options.words);
  if (refused.has_errors()) return kBadInput;
  return deliver_advice(options, scenario.title, cases);
}

}  // namespace

Command advise_command(CLI::App& program, const CommonOptions& common) {
  const report::Words& words = common.words;
  CLI::App& parser =
      *program.add_subcommand("advise", words("one card, several or a cluster, and what is free to try first"));
  const auto options = starting_from<AdviseCommandOptions>(common);
  parser.add_option("--deadline", options->offers.deadline, words("time for the whole job, such as 3d12h"))
      ->type_name("TIME");
  parser.add_option("--tokens", options->tokens, words("tokens of the whole job (default: train.tokens)"))
      ->type_name("N");
  parser
      .add_option("--mean-tokens", options->mean_tokens,
                  words("of a sample that is padded to seq_len: what packing would save"))
      ->type_name("N");
  parser
      .add_option("--budget", options->offers.budget, words("without a GPU: money for the whole job, such as 500USD"))
      ->type_name("MONEY");
  parser
      .add_option("--offers", options->offers.offers,
                  words("without a GPU: offers to look over, a file or a name (default: all but historic ones)"))
      ->type_name("FILE")
      ->allow_extra_args(false);
  add_scenario_options(parser, words, options->source,
                       words("scenario (YAML); its plan is left aside but for offload and order"));
  add_output_options(parser, *options, false);
  add_threads_option(parser, *options);
  add_data_option(parser, *options);
  add_examples(parser, words,
               {{"foretrain advise --model llama-2-7b --peft qlora --tokens 1e8 --deadline 2d"},
                {"foretrain advise my-model.yaml"},
                {"foretrain advise --model llama-2-7b --gpu rtx-4090 --gpus 8 --seq-len 2048 --global-batch 32"},
                {"foretrain advise my-model.yaml --tokens 1e9 --deadline 3d --mean-tokens 600"}},
               words("Sizes go from one card to the scenario's cluster, each with its best plan; the smallest that "
                     "does is advised. Without a GPU, or where none of these sizes does, machines are looked for among "
                     "the offers (foretrain catalog offers). Ctrl-C ends the search with what was found so far."));
  return {&parser, [options] {
            return options->source.show ? show_scenario(options->source, *options, OpenPlans::all)
                                        : advise_cases(*options);
          }};
}

}  // namespace foretrain::cli
