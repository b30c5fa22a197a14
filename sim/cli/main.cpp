#include <fmt/format.h>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "sim/cli/command.h"
#include "sim/cli/help.h"
#include "sim/cli/usage_error.h"
#include "sim/config/quote.h"

namespace foretrain::cli {
namespace {

void add_program_examples(CLI::App& program, const report::Words& words) {
  add_examples(program, words,
               {{"foretrain run scenarios/8x40g-vs-4x80g.yaml", words("answer a question")},
                {"foretrain run --model llama-2-7b --gpu a100-40g --gpus 8 --zero 2"},
                {"foretrain plan my-question.yaml", words("find the fastest plans")},
                {"foretrain explain my-question.yaml", words("where does the time go, what would help?")},
                {"foretrain diagnose my-run.yaml --log train.log", words("is this normal, what would explain it?")},
                {"foretrain advise my-model.yaml", words("one card, several or a cluster?")},
                {"foretrain rent scenarios/rent/3090-to-a100-40g.yaml", words("what to rent for a job")},
                {"foretrain memory 7b", words("what it takes to serve, adapt or train a model")},
                {"foretrain validate measured/*.yaml", words("how good are the predictions?")},
                {"foretrain check-claims", words("what popular articles say, simulated")},
                {"foretrain lesson nvlink", words("what does a faster link buy? eight such walks")},
                {"foretrain catalog gpus", words("what can a scenario name?")}},
               words("Exit status: 0 answered, 2 wrong input or usage, 3 a fault of foretrain's own."));
}

// A search asks for the megabytes of a step thousands of times; glibc would give them back to the system each time, and
// a third of the search of a mixture of experts on 256 GPUs would go to the kernel's clearing of pages.
void keep_freed_memory() {
#ifdef __GLIBC__
  constexpr int kMore = 64 << 20, kMost = 1 << 30;
  mallopt(M_MMAP_THRESHOLD, kMost);
  mallopt(M_TRIM_THRESHOLD, kMost);
  mallopt(M_TOP_PAD, kMore);
#endif
}

// ", did you mean ..." for the first word that nobody expected; empty if there is none like it.
Message suggestion(const CLI::App& program, const CLI::App& parsed) {
  const std::vector<std::string> extras = parsed.remaining();
  if (extras.empty()) return {};
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

// What is wrong with the command line. CLI11 only misses a command where there is one that it does not know.
Message fault_of(const CLI::ParseError& wrong, const CLI::App& program, const CLI::App& parsed) {
  const std::vector<std::string> extras = program.remaining();
  const bool unknown = &parsed == &program && !extras.empty() && !extras.front().starts_with('-');
  return unknown ? message("{} is no command", config::in_quotes(extras.front())) : usage_error(wrong);
}

int act(int argc, char** argv) {
  const CommonOptions common = spoken_by(argc, argv);
  const report::Words& words = common.words;
  CLI::App program{words("foretrain: the step time of distributed LLM training, before the GPUs are rented"),
                   "foretrain"};
  speak(program, words);
  program.set_version_flag("--version", "foretrain " FORETRAIN_VERSION,
                           words("Display program version information and exit"));
  CommonOptions options = common;
  add_language_option(program, options);
  add_program_examples(program, words);
  program.require_subcommand(1);
  const std::vector<Command> commands = {
      run_command(program, common),       plan_command(program, common),        scale_command(program, common),
      rent_command(program, common),      explain_command(program, common),     diagnose_command(program, common),
      advise_command(program, common),    memory_command(program, common),      init_command(program, common),
      import_command(program, common),    export_command(program, common),      schema_command(program, common),
      catalog_command(program, common),   lesson_command(program, common),      validate_command(program, common),
      calibrate_command(program, common), check_claims_command(program, common)};
  // CLI11 makes the -h of a subcommand before it takes over the name of the group.
  for (const Command& command : commands) command.parser->get_help_ptr()->group(words("Options"));
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
    return fail(words,
                message("{}{}; see {} --help", fault_of(wrong, program, *parsed), suggestion(program, *parsed), name));
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
    foretrain::cli::keep_freed_memory();
    return foretrain::cli::act(argc, argv);
  } catch (const std::exception& e) {
    fmt::print(stderr, "foretrain: internal error: {}; please report it with the input\n", e.what());
    return foretrain::cli::kOwnFault;
  }
}
