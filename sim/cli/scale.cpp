#include "sim/planner/scale.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <memory>

#include "sim/cli/command.h"
#include "sim/cli/output.h"
#include "sim/config/quote.h"
#include "sim/report/scale_report.h"

namespace foretrain::cli {
namespace {

struct ScaleCommandOptions : CommonOptions {
  std::string file, gpus, nodes;
  std::vector<std::string> cases;
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
      diagnostics.error({}, fmt::format("{} {} is no list of numbers from 1 to {}; for instance 8,16,32", flag,
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

int scale_cases(const ScaleCommandOptions& options) {
  Diagnostics diagnostics;
  const bool by_nodes = !options.nodes.empty();
  std::vector<int> sizes;
  if (by_nodes) sizes = read_sizes(options.nodes, "--nodes", diagnostics);
  if (!options.gpus.empty()) sizes = read_sizes(options.gpus, "--gpus", diagnostics);
  if (sizes.empty() && !diagnostics.has_errors()) diagnostics.error({}, "scale needs --gpus or --nodes");
  const std::optional<DataFolder> data = find_data(options, diagnostics);
  std::optional<Scenario> scenario =
      data ? load_scenario(options.file, *data, diagnostics, OpenPlans::all) : std::nullopt;
  const auto environment = scenario ? load_environment(*data, diagnostics) : std::nullopt;
  if (scenario) keep_cases(*scenario, options.file, options.cases, diagnostics);
  print(diagnostics, options.quiet);
  if (!environment || diagnostics.has_errors()) return kBadInput;

  std::vector<report::ScaledCase> curves;
  for (const Case& c : scenario->cases) {
    ScaleOptions how{sizes, options.weak, {}};
    how.search.threads = threads_of(options);
    if (by_nodes) {
      for (int& size : how.gpus) size *= c.cluster.gpus_per_node;
    }
    curves.push_back({c.name, scale(c, *environment, how)});
  }
  return deliver(options, [&] { return report::scale_table(scenario->title, curves, options.weak, standard_output(options)); },
                 {{options.json, [&] { return report::scale_json(scenario->title, curves, options.weak); }}});
}

}  // namespace

Command scale_command(CLI::App& program) {
  CLI::App& parser = *program.add_subcommand("scale", "how the cases of a scenario run on more and more GPUs");
  const auto options = std::make_shared<ScaleCommandOptions>();
  parser.add_option("FILE", options->file, "scenario (YAML); dp follows the GPUs, plan: auto is looked for anew")
      ->required();
  CLI::Option* gpus = parser.add_option("--gpus", options->gpus, "numbers of GPUs")->type_name("N,...");
  CLI::Option* nodes = parser.add_option("--nodes", options->nodes, "numbers of nodes")->type_name("N,...");
  gpus->excludes(nodes);
  parser.add_flag("--weak", options->weak, "the global batch grows with the GPUs (default: it stays)");
  parser.add_option("--case", options->cases, "only the case of this name (may be repeated)")
      ->type_name("NAME")
      ->allow_extra_args(false);
  add_output_options(parser, *options, false);
  add_threads_option(parser, *options);
  add_data_option(parser, *options);
  parser.footer(
      "Examples:\n"
      "  foretrain scale scenarios/gpt3-175b-1024xa100.yaml --nodes 16,32,64,128\n"
      "  foretrain scale my-question.yaml --gpus 8,16,32 --weak --json -");
  return {&parser, [options] { return scale_cases(*options); }};
}

}  // namespace foretrain::cli
