#include "sim/interchange/import.h"

#include <fmt/format.h>

#include <memory>

#include "sim/cli/help.h"
#include "sim/cli/output.h"
#include "sim/cli/scenario_source.h"
#include "sim/config/write.h"
#include "sim/report/terminal.h"

namespace foretrain::cli {
namespace {

struct ImportOptions : CommonOptions {
  std::vector<std::string> given;  // a file, or the words of a command
  ScenarioSource source;
};

std::optional<Imported> read_source(const ImportOptions& options, Diagnostics& diagnostics) {
  std::vector<Imported::Taken> beside;
  for (const FlagValue& given : spelled_out(options.source.values)) {
    beside.push_back({given.flag, given.path, given.text});
  }
  if (options.given.size() > 1 || options.given.front().find(' ') != std::string::npos) {
    return import_command(options.given, beside, diagnostics);
  }
  const auto root = config::parse_yaml_file(options.given.front(), diagnostics);
  return root ? import_file(*root, beside, diagnostics) : std::nullopt;
}

// What the answer needs and neither the source nor the flags say.
std::vector<std::string> missing_in(const config::Node& described) {
  std::vector<std::string> missing;
  if (described.find("model") == nullptr) missing.emplace_back("model");
  const config::Node* cluster = described.find("cluster");
  const auto says = [&](const char* key) { return cluster != nullptr && cluster->find(key) != nullptr; };
  if (!says("gpu") && !says("node")) missing.emplace_back("cluster.gpu");
  if (!says("gpus") && !says("nodes") && !says("node")) missing.emplace_back("cluster.gpus");
  return missing;
}

std::string text_of(const Imported& imported, const std::vector<std::string>& missing, const config::Node& document) {
  std::string text = fmt::format("# From a {}.\n", imported.format);
  for (const Imported::Taken& t : imported.taken) {
    text += fmt::format("# taken    {} -> {}: {}\n", report::printable(t.theirs), t.path, report::printable(t.text));
  }
  for (const Imported::Ignored& i : imported.ignored)
    text += fmt::format("# ignored  {}: {}\n", report::printable(i.theirs), i.why);
  if (!missing.empty()) text += fmt::format("# still to say: {}\n", fmt::join(missing, ", "));
  return text + config::write_yaml(document);
}

int convert(const ImportOptions& options) {
  Diagnostics diagnostics;
  const std::optional<Imported> imported = read_source(options, diagnostics);
  std::vector<FlagValue> values;
  if (imported) {
    for (const Imported::Taken& t : imported->taken) values.push_back({t.theirs, t.path, t.text});
  }
  std::optional<config::Node> described = imported ? case_of(values, diagnostics) : std::nullopt;
  std::vector<std::string> missing;
  if (described) missing = missing_in(*described);
  config::Node document = config::empty_map();
  if (described) config::set_entry(document, "base", std::move(*described));
  // A whole scenario is checked like any other; what is not whole yet cannot be.
  if (imported && missing.empty() && !diagnostics.has_errors()) {
    if (const auto data = find_data(options, diagnostics)) {
      read_scenario(document, *data, diagnostics, OpenPlans::automatic);
    }
  }
  print(diagnostics, options.words, options.quiet);
  if (!imported || diagnostics.has_errors()) return kBadInput;
  return print_text(text_of(*imported, missing, document), options.words);
}

}  // namespace

Command import_command(CLI::App& program, const CommonOptions& common) {
  const report::Words& words = common.words;
  CLI::App& parser =
      *program.add_subcommand("import", words("make a scenario of another tool's configuration or command line"));
  const auto options = starting_from<ImportOptions>(common);
  parser
      .add_option("SOURCE", options->given,
                  words("DeepSpeed JSON, YAML of accelerate, of the Hugging Face Trainer, LLaMA-Factory, axolotl or "
                        "GPT-NeoX; or after -- a command that launches Megatron or the Trainer"))
      ->required();
  parser.add_flag("-q,--quiet", options->quiet, words("no warnings"));
  add_field_flags(parser, words, options->source);
  add_language_option(parser, *options);
  add_data_option(parser, *options);
  add_examples(
      parser, words,
      {{"foretrain import ds_config.json --model llama-2-7b --gpu a100-80g:8 > question.yaml"},
       {"foretrain import --gpu h100 --fabric ndr-rails -- torchrun --nproc_per_node 8 --nnodes 2 pretrain_gpt.py "
        "..."}},
      words("What was taken and what was ignored stands in comments at the top; flags win over what is imported."));
  return {&parser, [options] { return convert(*options); }};
}

}  // namespace foretrain::cli
