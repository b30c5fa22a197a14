#include "sim/scenario/variations.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "sim/config/quote.h"
#include "sim/scenario/fields.h"
#include "sim/scenario/flag_values.h"

namespace foretrain {
namespace {

bool names_machine(std::string_view path) {
  return path == "cluster.gpu" || path == "cluster.gpus" || path == "cluster.node" || path == "cluster.nodes";
}

std::string label_of(const std::string& name, const std::string& path, const std::string& text) {
  const auto [machine, count] = name_and_count(text);
  if (path == "cluster.gpu" || path == "cluster.node") {
    return count.empty() ? machine : fmt::format("{} x {}", count, machine);
  }
  const Field* field = find_field(path);
  return field != nullptr && (field->path == "model" || field->path == "software") ? text
                                                                                   : fmt::format("{} {}", name, text);
}

// The path that a variation's name means.
std::optional<std::string> path_of(const std::string& name, const std::string& flag, Diagnostics& diagnostics) {
  if (name.find('.') != std::string::npos) return name;
  std::vector<std::string> known;
  for (const Field& field : scenario_fields()) {
    if (field.place == Field::Place::file) continue;
    const auto is_called = [&](std::string_view spelling) { return !spelling.empty() && spelling.substr(2) == name; };
    if (field.path == name || is_called(field.flag) || is_called(field.other_flag)) return std::string(field.path);
    if (!field.flag.empty()) known.emplace_back(field.flag.substr(2));
  }
  diagnostics.error(position_of_flag(flag),
                    message("there is no field {}{}; known are {}, and paths such as cluster.host.cores",
                            config::in_quotes(name), did_you_mean(name, known), fmt::join(known, ", ")));
  return std::nullopt;
}

}  // namespace

std::vector<Variant> read_variation(const Variation& text, Diagnostics& diagnostics) {
  const std::string flag = "--vary";
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
    diagnostics.error(position_of_flag(flag), message("{} is not of the form zero=1,2,3 or gpu=a100-40g:8,a100-80g:4",
                                                      config::in_quotes(text)));
    return {};
  }
  const std::string name = text.substr(0, equals);
  const std::optional<std::string> path = path_of(name, flag, diagnostics);
  if (!path) return {};
  std::vector<Variant> variants;
  std::vector<std::string> seen;
  for (const std::string& value : split_outside_brackets(text.substr(equals + 1), ',')) {
    if (value.empty() || std::find(seen.begin(), seen.end(), value) != seen.end()) {
      diagnostics.error(position_of_flag(flag),
                        message("{} has {} value; write each once, between commas", config::in_quotes(text),
                                value.empty() ? message("an empty") : message("twice the same")));
      return {};
    }
    seen.push_back(value);
    auto overlay = case_of({{flag + " " + name, *path, value}}, diagnostics);
    if (!overlay) return {};
    variants.push_back({std::move(*overlay), label_of(name, *path, value), names_machine(*path)});
  }
  return variants;
}

}  // namespace foretrain
