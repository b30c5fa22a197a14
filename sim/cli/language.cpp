#include <cstdlib>
#include <string_view>

#include "sim/cli/command.h"

namespace foretrain::cli {
namespace {

std::string_view of_variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// What POSIX says decides over messages: the first of these variables that is set. Empty: none, or one not spoken here.
std::string language_of_locale() {
  for (const char* name : {"LC_ALL", "LC_MESSAGES", "LANG"}) {
    if (of_variable(name).empty()) continue;
    for (const char* language : {"en", "zh"}) {
      if (of_variable(name).starts_with(language)) return language;
    }
    break;
  }
  return "";
}

// English if the catalogue is missing or wrong: a lack of words is no reason not to answer. Whether there is a data
// folder at all is for the command to say.
report::Words words_of(const CommonOptions& options) {
  if (options.language.empty() || options.language == "en") return {};
  Diagnostics no_data, diagnostics;
  const auto data = find_data(options, no_data);
  if (!data) return {};
  const std::string folder = data->path + "/configs/text/";
  std::vector<std::string> paths;
  for (const char* part : {"", "errors-", "help-", "lessons-", "claims-"}) {
    paths.push_back(folder + part + options.language + ".yaml");
  }
  const std::optional<report::Words> words = report::Words::load(paths, diagnostics);
  print(diagnostics, {});
  return words.value_or(report::Words{});
}

}  // namespace

CommonOptions spoken_by(int argc, const char* const* argv) {
  CommonOptions named;
  CLI::App look;
  look.set_help_flag();
  look.allow_extras();
  for (const auto& [name, value] : {std::pair("--lang", &named.language), std::pair("--data", &named.data)}) {
    look.add_option(name, *value)->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  }
  try {
    look.parse(argc, argv);
  } catch (const CLI::ParseError&) {  // whoever parses all of it says what is wrong
  }
  if (named.language != "en" && named.language != "zh") named.language = language_of_locale();
  CommonOptions spoken;
  spoken.language = named.language;
  spoken.words = words_of(named);
  return spoken;
}

}  // namespace foretrain::cli
