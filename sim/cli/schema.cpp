#include "sim/cli/command.h"
#include "sim/cli/help.h"
#include "sim/cli/output.h"
#include "sim/report/scenario_schema.h"

namespace foretrain::cli {
namespace {

struct SchemaOptions : CommonOptions {
  bool markdown = false;
};

}  // namespace

Command schema_command(CLI::App& program, const CommonOptions& common) {
  const report::Words& words = common.words;
  CLI::App& parser =
      *program.add_subcommand("schema", words("what a scenario file may say: a JSON Schema for editors"));
  const auto options = starting_from<SchemaOptions>(common);
  parser.add_flag("--markdown", options->markdown, words("the same as a page for people (docs/scenario.md)"));
  add_language_option(parser, *options);
  add_examples(parser, words, {{"foretrain schema > scenario.schema.json"}, {"foretrain schema --markdown | less"}},
               words("Editors complete and check a scenario whose first line is\n  # yaml-language-server: "
                     "$schema=scenario.schema.json"));
  return {&parser, [options] {
            return print_text(options->markdown ? report::scenario_page() : report::scenario_schema(), options->words);
          }};
}

}  // namespace foretrain::cli
