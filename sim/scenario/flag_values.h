#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/config/tree.h"

namespace foretrain {

// A value that the command line gives to a field of the scenario.
struct FlagValue {
  std::string flag;  // as messages name it: "--zero"
  std::string path;  // of a case, "plan.zero"; or "title", "ask"
  std::string text;  // a plain value, or YAML in brackets: "[7, 8, 8, 7]", "{kind: lora, rank: 64}"
};

// The same with the count of "--gpu a100-40g:8" and "--node dgx-a100-80g:2" as a value of its own.
std::vector<FlagValue> spelled_out(const std::vector<FlagValue>& values);

// The values alone as the map of a case, later ones over earlier ones. Positions in it are the flags. nullopt after
// reporting what is wrong with them.
std::optional<config::Node> case_of(const std::vector<FlagValue>& values, Diagnostics& diagnostics);

// Where messages say that a flag's value was written.
SourcePosition position_of_flag(const std::string& flag);

// "a100-40g:8" as {"a100-40g", "8"}; the count is empty where there is none.
std::pair<std::string, std::string> name_and_count(const std::string& text);

// The parts of a text between separators that stand in no brackets.
std::vector<std::string> split_outside_brackets(const std::string& text, char separator);

}  // namespace foretrain
