#include <fmt/format.h>

#include "sim/report/scenario_schema.h"
#include "sim/scenario/fields.h"

namespace foretrain::report {
namespace {

constexpr const char* kIntroduction =
    "# Scenario files\n\n"
    "Every key that a scenario may have. Made by `foretrain schema --markdown`; `foretrain schema` prints the same as\n"
    "a JSON Schema for editors, a copy of which is [scenario.schema.json](scenario.schema.json). Unknown keys are "
    "errors.\n\n"
    "Numbers take the units named beside them; plain numbers also `16k`, `1.5M`, `1e9`, `2B` (1e9), `1T` (1e12). GB "
    "are\n"
    "1e9 bytes. A flag gives the same field on the command line; a field without one is given by `--set PATH=VALUE`, "
    "such\n"
    "as `--set cluster.host.cores=64`.\n";

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) result += c == '|' ? std::string("\\|") : std::string(1, c);
  return result;
}

// The table of a map's keys, then those of the maps in it.
void append_section(const std::string& heading, std::string_view path, Field::Place place, std::string& page) {
  page +=
      fmt::format("\n## {}\n\n| key | meaning | values | default | flag |\n| --- | --- | --- | --- | --- |\n", heading);
  const std::vector<const Field*> keys = keys_of(path, place);
  for (const Field* field : keys) {
    std::string flag = field->flag.empty() ? "" : fmt::format("`{}`", field->flag);
    if (!field->other_flag.empty()) flag += fmt::format(", `{}`", field->other_flag);
    page += fmt::format("| `{}` | {} | {} | {} | {} |\n", field->key(), escaped(field->meaning),
                        escaped(values_in_words(*field)), escaped(field->fallback), flag);
  }
  for (const Field* field : keys) {
    if (keys_of(field->path, place).empty()) continue;
    append_section(fmt::format("{}{}", field->path, field->list ? "[]" : ""), field->path, place, page);
  }
}

}  // namespace

std::string scenario_page() {
  std::string page = kIntroduction;
  append_section("The file", "", Field::Place::file, page);
  append_section("A case, and base", "", Field::Place::in_case, page);
  append_section("A case of a file of measured runs", "", Field::Place::measured, page);
  return page;
}

}  // namespace foretrain::report
