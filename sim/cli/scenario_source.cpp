#include "sim/cli/scenario_source.h"

#include <fmt/format.h>

#include "sim/cli/chosen_plans.h"
#include "sim/cli/output.h"
#include "sim/scenario/fields.h"
#include "sim/scenario/understood.h"

namespace foretrain::cli {
namespace {

std::string type_name(const Field& field) {
  switch (field.kind) {
    case Field::Kind::integer:
      return field.words.empty() ? "N" : fmt::format("N|{}", fmt::join(field.words, "|"));
    case Field::Kind::number:
      return "X";
    case Field::Kind::choice:
      return field.words.size() <= 5 ? fmt::format("{}", fmt::join(field.words, "|")) : "WORD";
    default:
      if (field.path == "title") return "TEXT";
      if (field.path == "price") return "AMOUNT";
      return field.path == "cluster.gpu" || field.path == "cluster.node" ? "NAME[:N]" : "NAME";
  }
}

std::string help_of(const Field& field, const report::Words& words) {
  std::string help = words.text(std::string(field.meaning));
  if (field.kind == Field::Kind::choice && field.words.size() > 5)
    help += fmt::format(": {}", fmt::join(field.words, ", "));
  return help;
}

// The heading above all of them.
std::string group_of_fields(const report::Words& words) {
  return words("Fields of the scenario, over those of FILE or instead of one");
}

void add_flag(CLI::App& parser, const report::Words& words, ScenarioSource& source, const Field& field) {
  const std::string flag(field.flag), path(field.path);
  const std::string spellings = flag + (field.other_flag.empty() ? "" : "," + std::string(field.other_flag));
  const auto take = [&source, flag, path](const std::string& text) { source.values.push_back({flag, path, text}); };
  if (field.kind == Field::Kind::boolean) {
    parser
        .add_flag_callback(
            spellings, [take] { take("true"); }, help_of(field, words))
        ->group(group_of_fields(words));
  } else {
    parser.add_option_function<std::string>(spellings, take, help_of(field, words))
        ->type_name(type_name(field))
        ->group(group_of_fields(words));
  }
}

// "plan.zero=2" of --set.
void take_assignment(const std::string& text, ScenarioSource& source) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw CLI::ValidationError("--set", fmt::format("'{}' is not of the form cluster.host.cores=64", text));
  }
  const std::string path = text.substr(0, equals);
  source.values.push_back({"--set " + path, path, text.substr(equals + 1)});
}

}  // namespace

void add_field_flags(CLI::App& parser, const report::Words& words, ScenarioSource& source, Variations variations) {
  for (const Field& field : scenario_fields()) {
    if (!field.flag.empty() && parser.get_option_no_throw(std::string(field.flag)) == nullptr) {
      add_flag(parser, words, source, field);
    }
  }
  parser
      .add_option_function<std::vector<std::string>>(
          "--set",
          [&source](const std::vector<std::string>& texts) {
            for (const std::string& text : texts) take_assignment(text, source);
          },
          words("any other field (docs/scenario.md), such as cluster.host.cores=64; may be repeated"))
      ->type_name("PATH=VALUE")
      ->allow_extra_args(false)
      ->group(group_of_fields(words));
  if (variations == Variations::none) return;
  parser
      .add_option("--vary", source.variations,
                  words("a case for every value, such as zero=1,2,3 or gpu=a100-40g:8,a100-80g:4; "
                        "several make all combinations"))
      ->type_name("FIELD=V,...")
      ->allow_extra_args(false)
      ->group(group_of_fields(words));
}

void add_scenario_options(CLI::App& parser, const report::Words& words, ScenarioSource& source,
                          const std::string& file_help) {
  parser.add_option("FILE", source.file, file_help);
  parser.add_option("--case", source.cases, words("only the case of this name (may be repeated)"))
      ->type_name("NAME")
      ->allow_extra_args(false);
  parser.add_flag("--show-scenario", source.show, words("print the scenario as understood (YAML), and nothing else"));
  add_field_flags(parser, words, source);
}

std::optional<config::Node> load_document(const ScenarioSource& source, Diagnostics& diagnostics) {
  if (source.file.empty() && source.values.empty() && source.variations.empty()) {
    diagnostics.error({}, message("nothing to answer; give a scenario file, or --model and --gpu, for instance "
                                  "--model llama-2-7b --gpu a100-80g --gpus 8"));
    return std::nullopt;
  }
  if (source.file.empty()) return with_flags(nullptr, source.values, source.variations, diagnostics);
  const std::optional<config::Node> document = config::parse_yaml_file(source.file, diagnostics);
  return document ? with_flags(&*document, source.values, source.variations, diagnostics) : std::nullopt;
}

std::optional<Scenario> load(const ScenarioSource& source, const DataFolder& data, Diagnostics& diagnostics,
                             OpenPlans open_plans) {
  const std::optional<config::Node> document = load_document(source, diagnostics);
  std::optional<Scenario> scenario = document ? read_scenario(*document, data, diagnostics, open_plans) : std::nullopt;
  if (scenario) keep_cases(*scenario, source.file.empty() ? "command line" : source.file, source.cases, diagnostics);
  return scenario;
}

std::optional<ScenarioToSimulate> load_to_simulate(const ScenarioSource& source, const CommonOptions& options,
                                                   OpenPlans open_plans, Diagnostics& diagnostics) {
  const std::optional<DataFolder> data = find_data(options, diagnostics);
  std::optional<Scenario> scenario = data ? load(source, *data, diagnostics, open_plans) : std::nullopt;
  const auto environment = scenario ? load_environment(*data, diagnostics) : std::nullopt;
  if (!environment) return std::nullopt;
  if (open_plans == OpenPlans::automatic && !diagnostics.has_errors()) {
    choose_plans(*scenario, *environment, options, diagnostics);
  }
  return ScenarioToSimulate{std::move(*scenario), *environment};
}

int show_scenario(const ScenarioSource& source, const CommonOptions& options, OpenPlans open_plans) {
  Diagnostics diagnostics;
  const std::optional<DataFolder> data = find_data(options, diagnostics);
  const auto scenario = data ? load(source, *data, diagnostics, open_plans) : std::nullopt;
  print(diagnostics, options.words, options.quiet);
  if (!scenario || diagnostics.has_errors()) return kBadInput;
  Diagnostics read_again;
  const auto document = load_document(source, read_again);
  return print_text(understood_text(*document, *scenario), options.words);
}

}  // namespace foretrain::cli
