#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "sim/report/words.h"

namespace foretrain::cli {

// Has --help of the program, and of the subcommands that are added to it from now on, speak the language of the words:
// headings, labels, and -h itself.
void speak(CLI::App& program, const report::Words& words);

// A command as an example in --help, and what it is for.
struct Example {
  const char* command;
  std::string purpose = {};
};
// The end of --help: examples, their purposes below each other, and a closing remark.
void add_examples(CLI::App& parser, const report::Words& words, const std::vector<Example>& examples,
                  const std::string& closing = "");

}  // namespace foretrain::cli
