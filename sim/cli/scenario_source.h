#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/analysis/case_report.h"
#include "sim/cli/command.h"
#include "sim/scenario/flags.h"

namespace foretrain::cli {

// Where a command's scenario comes from: a file, flags for its fields, or both, the flags over the file.
struct ScenarioSource {
  std::string file;  // empty: the flags alone
  std::vector<FlagValue> values;
  std::vector<Variation> variations;
  std::vector<std::string> cases;  // only those of these names; empty: all
  bool show = false;               // print the scenario as understood instead of answering
};

// FILE (`file_help` says what it is for), --case, --show-scenario, --set, --vary and a flag for every common field. A
// flag that the parser has already keeps the command's own meaning.
void add_scenario_options(CLI::App& parser, const report::Words& words, ScenarioSource& source,
                          const std::string& file_help);
// The flags of fields and --set alone, and --vary where variations make cases.
enum class Variations { of_cases, none };
void add_field_flags(CLI::App& parser, const report::Words& words, ScenarioSource& source,
                     Variations variations = Variations::of_cases);

// The document that file and flags make; nullopt after reporting what is wrong.
std::optional<config::Node> load_document(const ScenarioSource& source, Diagnostics& diagnostics);

// Its scenario, with the cases that were asked for.
std::optional<Scenario> load(const ScenarioSource& source, const DataFolder& data, Diagnostics& diagnostics,
                             OpenPlans open_plans);

// A scenario and what it is simulated in.
struct ScenarioToSimulate {
  Scenario scenario;
  Environment environment;
};

// Both from the data folder of `options`. With OpenPlans::automatic, cases with `plan: auto` are given their plans.
// nullopt after reporting what is wrong; a scenario that is there may have faults too (diagnostics.has_errors()).
std::optional<ScenarioToSimulate> load_to_simulate(const ScenarioSource& source, const CommonOptions& options,
                                                   OpenPlans open_plans, Diagnostics& diagnostics);

// What --show-scenario does: prints the scenario as understood, and returns the exit status.
int show_scenario(const ScenarioSource& source, const CommonOptions& options, OpenPlans open_plans);

}  // namespace foretrain::cli
