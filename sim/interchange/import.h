#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/config/tree.h"

namespace foretrain {

// What another tool's configuration says about a run, in the fields of our scenario.
struct Imported {
  std::string format;  // "DeepSpeed configuration"
  struct Taken {
    std::string theirs;  // "zero_optimization.stage"
    std::string path;    // "plan.zero"
    std::string text;
  };
  std::vector<Taken> taken;
  struct Ignored {
    std::string theirs, why;
  };
  std::vector<Ignored> ignored;
};

// Reads a configuration of DeepSpeed (JSON), accelerate, or the Hugging Face Trainer, LLaMA-Factory, axolotl and
// GPT-NeoX (YAML), told apart by their keys. `beside` are fields that the user says as well: they win, and stand last
// in what was taken. An unknown kind of file is reported, and nullopt returned.
std::optional<Imported> import_file(const config::Node& root, const std::vector<Imported::Taken>& beside,
                                    Diagnostics& diagnostics);

// Reads a command line: torchrun, deepspeed or accelerate launching Megatron, or a script of the Hugging Face Trainer.
std::optional<Imported> import_command(const std::vector<std::string>& words,
                                       const std::vector<Imported::Taken>& beside, Diagnostics& diagnostics);

}  // namespace foretrain
