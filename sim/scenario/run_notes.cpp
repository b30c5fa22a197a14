#include "sim/scenario/run_notes.h"

#include <fnmatch.h>

#include <algorithm>
#include <filesystem>

#include "sim/config/quote.h"
#include "sim/config/reader.h"
#include "sim/hardware/gpu.h"
#include "sim/scenario/fields.h"

namespace foretrain {
namespace {

using config::MapReader;
using config::Node;

std::map<std::string, std::string> read_flags(const Node& list, Diagnostics& diagnostics) {
  std::map<std::string, std::string> flags;
  MapReader reasons(list, diagnostics, "flags");
  if (!list.is_map()) return flags;
  for (const Node::Entry& entry : list.map()) flags[entry.key] = reasons.required_text(entry.key);
  return flags;
}

// What a correction may name: how a run is described, and what kind of memory was read; never a figure that was
// measured.
bool correctable(const Field& field) {
  return field.place == Field::Place::in_case || field.path == "measured.memory_kind";
}

Message unknown_field(const std::string& path) {
  std::vector<std::string> known;
  for (const Field& field : scenario_fields()) {
    if (correctable(field)) known.emplace_back(field.path);
  }
  return message("there is no field {} that a correction may set{}", config::in_quotes(path),
                 did_you_mean(path, known));
}

Correction read_correction(const Node& node, Diagnostics& diagnostics) {
  MapReader reader(node, diagnostics, "corrections");
  Correction correction;
  correction.runs = reader.text_list("runs").value_or(std::vector<std::string>{});
  if (correction.runs.empty()) reader.error("runs", message("runs must list names of runs; * stands for any text"));
  const Node* set = present(reader.node("set"));
  if (set == nullptr || !set->is_map() || set->map().empty()) {
    reader.error("set",
                 message("set must be a map from fields of a case to what they are, such as {}", "{plan.zero: 2}"));
  } else {
    for (const Node::Entry& entry : set->map()) {
      const Field* field = find_field(entry.key);
      if (field == nullptr || !correctable(*field)) {
        diagnostics.error(entry.key_position, unknown_field(entry.key));
      }
      correction.set.emplace(entry.key, entry.value);
    }
  }
  correction.why = reader.required_text("why");
  correction.source = reader.required_text("source");
  reader.finish();
  return correction;
}

// The value at a path of a case as a case that says nothing else.
Node case_with(std::string_view path, const Node& value) {
  const std::size_t dot = path.find('.');
  const std::string key(path.substr(0, dot));
  Node inner = dot == std::string_view::npos ? value : case_with(path.substr(dot + 1), value);
  return {value.position, Node::Map{{key, value.position, std::move(inner)}}};
}

}  // namespace

bool Correction::concerns(std::string_view run) const {
  const std::string name(run);
  return std::any_of(runs.begin(), runs.end(),
                     [&](const std::string& pattern) { return fnmatch(pattern.c_str(), name.c_str(), 0) == 0; });
}

std::optional<RunNotes> load_run_notes(const std::string& path, Diagnostics& diagnostics) {
  const int errors_before = diagnostics.error_count();
  const auto document = config::parse_yaml_file(path, diagnostics);
  if (!document) return std::nullopt;
  RunNotes notes;
  MapReader file(*document, diagnostics, "notes on runs");
  if (const Node* flags = present(file.node("flags"))) notes.flags = read_flags(*flags, diagnostics);
  if (const Node* list = present(file.node("corrections"))) {
    if (!list->is_sequence()) {
      file.error("corrections", message("corrections must be a list of {}", "{runs, set, why, source}"));
    } else {
      for (const Node& item : list->sequence()) notes.corrections.push_back(read_correction(item, diagnostics));
    }
  }
  file.finish();
  if (diagnostics.error_count() > errors_before) return std::nullopt;
  return notes;
}

std::optional<RunNotes> load_run_notes(const DataFolder& data, Diagnostics& diagnostics) {
  const std::string path = data.path + "/tests/validation/flags.yaml";
  std::error_code failed;
  if (!std::filesystem::exists(path, failed)) return RunNotes{};
  return load_run_notes(path, diagnostics);
}

Node corrected(const Node& run_case, std::string_view run, const RunNotes& notes) {
  Node result = run_case;
  for (const Correction& correction : notes.corrections) {
    if (!correction.concerns(run)) continue;
    for (const auto& [path, value] : correction.set) result = merge(result, case_with(path, value));
  }
  return result;
}

}  // namespace foretrain
