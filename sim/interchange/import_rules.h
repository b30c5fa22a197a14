#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

namespace foretrain {

// One of another tool's keys and the field of ours that it means.
struct ImportRule {
  const char* theirs;
  // A field of a case, or "import.NAME" for what only helps to compute fields.
  const char* path;
  // Their values in lower case and ours; ours empty: nothing to say. Without words the value is taken as it is.
  std::vector<std::pair<const char*, const char*>> words = {};
};

std::span<const ImportRule> deepspeed_rules();
std::span<const ImportRule> accelerate_rules();
std::span<const ImportRule> trainer_rules();  // of the Hugging Face Trainer and LLaMA-Factory
std::span<const ImportRule> axolotl_rules();
std::span<const ImportRule> neox_rules();      // with '_' in keys
std::span<const ImportRule> megatron_rules();  // of its flags, without those of what launches it
std::span<const ImportRule> command_rules(bool megatron);

}  // namespace foretrain
