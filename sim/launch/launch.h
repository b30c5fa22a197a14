#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/scenario/scenario.h"

namespace foretrain {

// A case's plan as settings of the tool that runs it: the way back from import_command() and import_file(), whose rules
// it reads backwards.
struct LaunchSettings {
  std::string text;               // a command line of a shell, or a JSON file
  std::vector<Message> left_out;  // what of the plan is said elsewhere, or cannot be said
};

// In the form that the framework reads (Software::launcher); nullopt if that is none of those.
std::optional<LaunchSettings> launch_settings(const Case& subject);

}  // namespace foretrain
