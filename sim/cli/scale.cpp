#include "sim/planner/scale.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <memory>

#include "sim/cli/command.h"
#include "sim/cli/help.h"
#include "sim/cli/output.h"
#include "sim/cli/scenario_source.h"
#include "sim/cli/search_progress.h"
#include "sim/config/quote.h"
#include "sim/report/scale_report.h"

namespace foretrain::cli {
namespace {

struct ScaleCommandOptions : CommonOptions {
  ScenarioSource source;
  std::string gpus, nodes;
  bool weak = false;
};

// "8,16,32", ascending and each once.
std::vector<int> read_sizes(const std::string& text, const char* flag, Diagnostics& diagnostics) {
  constexpr int kMost = 65536;
  std::vector<int> sizes;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    int size = 0;
    const auto [stop, fault] = std::from_chars(text.data() + begin, text.data() + end, size);
    if (fault != std::errc{} || stop != text.data() + end || size < 1 || size > kMost) {
      diagnostics.error({}, message("{} {} is no list of numbers from 1 to {}; for instance 8,16,32", flag,
                                    config::in_quotes(text), kMost));
      return {};
    }
    sizes.push_back(size);
    begin = end + 1;
  }
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

std::vector<int> sizes_of(const ScaleCommandOptions& options, Diagnostics& diagnostics) {
  if (!options.gpus.empty()) return read_sizes(options.gpus, "--gpus", diagnostics);
  if (!options.nodes.empty()) return read_sizes(options.nodes, "--nodes", diagnostics);
  diagnostics.error({}, message("scale needs --gpus or --nodes"));
  return {};
}

// Without a file the machine starts at its smallest size, in nodes that hold the largest if one can.
ScenarioSource with_smallest(const ScaleCommandOptions& options, const std::vector<int>& sizes) {
  constexpr int kUsualNode = 8;
  ScenarioSource source = options.source;
  if (!source.file.empty() || sizes.empty()) return source;
  const auto give = [&](const char* flag, const char* path, int value) {
    source.values.push_back({flag, path, fmt::format("{}", value)});
  };
  const auto says = [&](std::string_view path) {
    return std::any_of(source.values.begin(), source.values.end(), [&](const FlagValue& v) { return v.path == path; });
  };
  if (!options.nodes.empty()) {
    give("--nodes", "cluster.nodes", sizes.front());
    return source;
  }
  const int per_node = std::min(sizes.back(), kUsualNode);
  if (!says("cluster.node") && !says("cluster.gpus_per_node")) give("--gpus", "cluster.gpus_per_node", per_node);
  give("--gpus", "cluster.gpus", sizes.front());
  return source;
}

int show(const ScaleCommandOptions& options) {
  Diagnostics diagnostics;
  const std::vector<int> sizes = sizes_of(options, diagnostics);
  print(diagnostics, options.words);
  if (sizes.empty()) return kBadInput;
  return show_scenario(with_smallest(options, sizes), options, OpenPlans::all);
}

int scale_cases(const ScaleCommandOptions& options) {
  Diagnostics diagnostics;
  const bool by_nodes = !options.nodes.empty();
  const std::vector<int> sizes = sizes_of(options, diagnostics);
  const auto asked = load_to_simulate(with_smallest(options, sizes), options, OpenPlans::all, diagnostics);
  const auto page = asked ? page_template(options, asked->environment.data, diagnostics) : std::nullopt;
  print(diagnostics, options.words, options.quiet);
  if (!asked || diagnostics.has_errors()) return kBadInput;
  const auto& [scenario, environment] = *asked;

  std::vector<report::ScaledCase> curves;
  const std::atomic<bool>& stop = stop_on_interrupt();
  Diagnostics left_out;
  for (const Case& c : scenario.cases) {
    if (stop) {
      warn_of_no_turn(c, left_out);
      continue;
    }
    ProgressLine line(options);
    ScaleOptions how{sizes, options.weak, {}};
    how.search.threads = threads_of(options);
    how.search.stop = &stop;
    how.progress = sizes_shown_on(line, options.words);
    how.search.with_elasticity = !options.json.empty() || !options.html.empty();
    if (by_nodes) {
      for (int& size : how.gpus) size *= c.cluster.gpus_per_node;
    }
    curves.push_back({c, scale(c, environment, how)});
  }
  print(left_out, options.words);
  return deliver(
      options, [&] { return report::scale_table(scenario.title, curves, options.weak, standard_output(options)); },
      {{options.json, [&] { return report::scale_json(scenario.title, curves, options.weak); }},
       {options.html, [&] {
          return page::scale_page(scenario.title, curves, options.weak, environment, *page, origin_of(options));
        }}});
}

}  // namespace

Command scale_command(CLI::App& program, const CommonOptions& common) {
  const report::Words& words = common.words;
  CLI::App& parser = *program.add_subcommand("scale", words("how the cases of a scenario run on more and more GPUs"));
  const auto options = starting_from<ScaleCommandOptions>(common);
  CLI::Option* gpus = parser.add_option("--gpus", options->gpus, words("numbers of GPUs"))->type_name("N,...");
  CLI::Option* nodes = parser.add_option("--nodes", options->nodes, words("numbers of nodes"))->type_name("N,...");
  gpus->excludes(nodes);
  parser.add_flag("--weak", options->weak, words("the global batch grows with the GPUs (default: it stays)"));
  add_scenario_options(parser, words, options->source,
                       words("scenario (YAML); dp follows the GPUs, plan: auto is looked for anew"));
  add_output_options(parser, *options, false);
  add_html_option(parser, *options);
  add_threads_option(parser, *options);
  add_data_option(parser, *options);
  add_examples(parser, words,
               {{"foretrain scale scenarios/gpt3-175b-1024xa100.yaml --nodes 16,32,64,128"},
                {"foretrain scale --model llama-2-7b --gpu a100-80g --global-batch 64 --zero 3 --gpus 1,2,4,8"},
                {"foretrain scale my-question.yaml --gpus 8,16,32 --weak --html curves.html"},
                {"foretrain scale my-question.yaml --gpus 8,16,32 --weak --json -"}},
               words("Ctrl-C ends the search with the sizes so far."));
  return {&parser, [&parser, options] {
            options->command = command_line(parser);
            return options->source.show ? show(*options) : scale_cases(*options);
          }};
}

}  // namespace foretrain::cli
