#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "sim/cli/command.h"

namespace foretrain::cli {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  foretrain run scenarios/8x40g-vs-4x80g.yaml     answer a question\n"
    "  foretrain run --model llama-2-7b --gpu a100-40g --gpus 8 --zero 2\n"
    "  foretrain plan my-question.yaml                  find the fastest plans\n"
    "  foretrain explain my-question.yaml               where does the time go, what would help?\n"
    "  foretrain diagnose my-run.yaml --log train.log   is this normal, what would explain it?\n"
    "  foretrain advise my-model.yaml                   one card, several or a cluster?\n"
    "  foretrain rent scenarios/rent/3090-to-a100-40g.yaml    what to rent for a job\n"
    "  foretrain memory 7b                              what it takes to serve, adapt or train a model\n"
    "  foretrain validate measured/*.yaml               how good are the predictions?\n"
    "  foretrain check-claims                           what popular articles say, simulated\n"
    "  foretrain lesson nvlink                          what does a faster link buy? eight such walks\n"
    "  foretrain catalog gpus                           what can a scenario name?\n"
    "Exit status: 0 answered, 2 wrong input or usage, 3 a fault of foretrain's own.";

// ", did you mean ..." for the first word that nobody expected; empty if there is none like it.
std::string suggestion(const CLI::App& program, const CLI::App& parsed) {
  const std::vector<std::string> extras = parsed.remaining();
  if (extras.empty()) return "";
  const std::string word = extras.front().substr(0, extras.front().find('='));
  std::vector<std::string> known;
  for (const CLI::Option* option : parsed.get_options()) {
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  }
  if (&parsed == &program) {
    for (const CLI::App* command : program.get_subcommands({})) known.push_back(command->get_name());
  }
  return did_you_mean(word, known);
}

int act(int argc, char** argv) {
  CLI::App program{"foretrain: the step time of distributed LLM training, before the GPUs are rented", "foretrain"};
  program.set_version_flag("--version", "foretrain " FORETRAIN_VERSION);
  program.footer(kExamples);
  program.require_subcommand(1);
  const std::vector<Command> commands = {
      run_command(program),     plan_command(program),     scale_command(program),     rent_command(program),
      explain_command(program), diagnose_command(program), advise_command(program),    memory_command(program),
      init_command(program),    import_command(program),   schema_command(program),    catalog_command(program),
      lesson_command(program),  validate_command(program), calibrate_command(program), check_claims_command(program)};
  try {
    program.parse(argc, argv);
  } catch (const CLI::Success& asked) {  // --help, --version
    return program.exit(asked) == 0 ? kAnswered : kBadInput;
  } catch (const CLI::ParseError& wrong) {
    const CLI::App* parsed = &program;
    for (const Command& command : commands) {
      if (command.parser->parsed()) parsed = command.parser;
    }
    const std::string name = parsed == &program ? "foretrain" : "foretrain " + parsed->get_name();
    return fail(fmt::format("{}{}; see {} --help", wrong.what(), suggestion(program, *parsed), name));
  }
  for (const Command& command : commands) {
    if (command.parser->parsed()) return command.act();
  }
  return kBadInput;
}

}  // namespace
}  // namespace foretrain::cli

int main(int argc, char** argv) {
  try {
    return foretrain::cli::act(argc, argv);
  } catch (const std::exception& e) {
    fmt::print(stderr, "foretrain: internal error: {}; please report it with the input\n", e.what());
    return foretrain::cli::kOwnFault;
  }
}
