#include <memory>

#include "sim/cli/command.h"
#include "sim/cli/output.h"
#include "sim/report/scenario_schema.h"

namespace foretrain::cli {

Command schema_command(CLI::App& program) {
  CLI::App& parser = *program.add_subcommand("schema", "what a scenario file may say: a JSON Schema for editors");
  const auto markdown = std::make_shared<bool>(false);
  parser.add_flag("--markdown", *markdown, "the same as a page for people (docs/scenario.md)");
  parser.footer(
      "Examples:\n"
      "  foretrain schema > scenario.schema.json\n"
      "  foretrain schema --markdown | less\n"
      "Editors complete and check a scenario whose first line is\n"
      "  # yaml-language-server: $schema=scenario.schema.json");
  return {&parser, [markdown] {
            const auto text = [&] { return *markdown ? report::scenario_page() : report::scenario_schema(); };
            return deliver({}, text, {});
          }};
}

}  // namespace foretrain::cli
