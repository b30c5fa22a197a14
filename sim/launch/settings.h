#pragma once

#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sim/interchange/import_rules.h"
#include "sim/launch/launch.h"

namespace foretrain {

// Fields of a scenario ("plan.tp") as they are written.
using FieldTexts = std::map<std::string, std::string, std::less<>>;

// Those that every framework has, of a case with its plan.
FieldTexts common_fields(const Case& subject);

// Fields in the words of another tool, in the order of its rules; each field once, by the first rule that has a word
// for it. What has none is what the tool does by itself.
std::vector<std::pair<std::string, std::string>> in_their_words(const FieldTexts& fields,
                                                                std::span<const ImportRule> rules);

// A command that launches Megatron-LM's pretrain_gpt.py on the case's GPUs (Megatron-LM, training/arguments.py).
LaunchSettings megatron_command(const Case& subject);
// A configuration of DeepSpeed (deepspeed.ai/docs/config-json).
LaunchSettings deepspeed_configuration(const Case& subject);

}  // namespace foretrain
