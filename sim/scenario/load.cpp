#include <array>

#include "sim/config/reader.h"
#include "sim/scenario/case_reader.h"
#include "sim/scenario/document.h"
#include "sim/scenario/run_notes.h"
#include "sim/scenario/scenario.h"

namespace foretrain {
namespace {

using config::MapReader;
using config::Node;

void append_all_but_notes(const Diagnostics& said, Diagnostics& diagnostics) {
  for (const Diagnostic& d : said.all()) {
    if (d.severity == Severity::error) diagnostics.error(d.position, d.message);
    if (d.severity == Severity::unsupported) diagnostics.unsupported(d.position, d.message);
    if (d.severity == Severity::warning) diagnostics.warning(d.position, d.message);
  }
}

Measured read_measured(const Node& node, Diagnostics& diagnostics) {
  MapReader reader(node, diagnostics, "measured");
  Measured measured;
  measured.step_time_s = reader.number("step_time_s", config::Unit::seconds, {1e-9, 1e9});
  if (const auto memory = reader.number("memory_gb_per_gpu", config::Unit::gigabytes, {1, 1e15})) {
    measured.memory_per_gpu = Bytes{*memory};
  }
  const std::array kinds = {Measured::MemoryKind::allocated, Measured::MemoryKind::reserved,
                            Measured::MemoryKind::device};
  if (const auto kind = reader.choice("memory_kind", {"allocated", "reserved", "device"})) {
    measured.memory_kind = kinds[*kind];
  }
  measured.out_of_memory = reader.boolean("oom").value_or(false);
  reader.text("derived_from");
  reader.node("published");  // the figures as the source printed them
  reader.finish();
  const bool says_something = reader.has("step_time_s") || reader.has("memory_gb_per_gpu") || reader.has("oom");
  if (node.is_map() && !says_something) {
    diagnostics.error(node.position, message("measured needs step_time_s, memory_gb_per_gpu or oom"));
  }
  return measured;
}

// The parts of a case that only measured runs have. Reported into `diagnostics`: they are the file's own fault.
MeasuredCase read_measurement(const Node& node, const std::string& name, Diagnostics& diagnostics) {
  MeasuredCase result;
  result.name = name;
  const Node* measured = node.find("measured");
  if (present(measured) == nullptr) {
    diagnostics.error(node.position, message("measured is missing: this case says nothing to compare with"));
  } else {
    result.measured = read_measured(*measured, diagnostics);
  }
  MapReader reader(node, diagnostics, "case");
  reader.text("software_version");
  const std::vector<std::string> trusts = {"high", "medium", "low"};
  if (const auto trust = reader.choice("trust", trusts)) result.trust = trusts[*trust];
  reader.text_list("guessed");
  reader.text_list("needs");
  return result;
}

}  // namespace

std::optional<Scenario> read_scenario(const Node& root, const DataFolder& data, Diagnostics& diagnostics,
                                      OpenPlans open_plans) {
  const int errors_before = diagnostics.error_count();
  const std::optional<Document> document = read_document(root, diagnostics);
  if (!document) return std::nullopt;
  Scenario scenario;
  scenario.title = document->title;
  scenario.ask = document->ask;
  CaseReader reader(data, open_plans);
  reader.compare_by(needs_of_cases(*document));
  for_each_case(*document, diagnostics, [&](const Node& node, const std::string& name) {
    Diagnostics said;
    if (std::optional<Case> read = read_case(reader, node, name, said)) scenario.cases.push_back(std::move(*read));
    append_all_but_notes(said, diagnostics);
  });
  if (diagnostics.error_count() > errors_before) return std::nullopt;
  return scenario;
}

std::optional<Scenario> load_scenario(const std::string& path, const DataFolder& data, Diagnostics& diagnostics,
                                      OpenPlans open_plans) {
  const std::optional<Node> root = config::parse_yaml_file(path, diagnostics);
  return root ? read_scenario(*root, data, diagnostics, open_plans) : std::nullopt;
}

std::optional<MeasuredFile> load_measured(const std::string& path, const DataFolder& data, const RunNotes& notes,
                                          Diagnostics& diagnostics) {
  const int errors_before = diagnostics.error_count();
  const std::optional<Node> root = config::parse_yaml_file(path, diagnostics);
  if (!root) return std::nullopt;
  const std::optional<Document> document = read_document(*root, diagnostics);
  if (!document) return std::nullopt;
  MeasuredFile file;
  file.path = path;
  file.source_title = document->source_title;
  file.source_url = document->source_url;
  CaseReader reader(data);
  for_each_case(*document, diagnostics, [&](const Node& written, const std::string& name) {
    const Node node = corrected(written, name, notes);
    MeasuredCase measured = read_measurement(node, name, diagnostics);
    Diagnostics said;
    measured.subject = read_case(reader, node, name, said);
    for (const Diagnostic& d : said.all()) {
      if (d.severity == Severity::unsupported) measured.refusals.push_back(d.message.english());
      if (d.severity == Severity::error) {
        measured.refusals.push_back(to_string(d));
        measured.faulty = true;
      }
    }
    file.cases.push_back(std::move(measured));
  });
  if (diagnostics.error_count() > errors_before) return std::nullopt;
  return file;
}

}  // namespace foretrain
