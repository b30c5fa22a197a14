#include <algorithm>
#include <filesystem>

#include "sim/config/quote.h"
#include "sim/lessons/load_what_if.h"
#include "sim/scenario/run_notes.h"

namespace foretrain {
namespace {

using config::MapReader;
using config::Node;

constexpr std::size_t kMostSteps = 50, kMostRows = 100, kMostColumns = 20, kMostFigures = 20, kMostRuns = 20;

// The items of a list of 1 to `most` items; nothing after reporting anything else.
std::span<const Node> items(MapReader& reader, const char* key, std::size_t most, bool required) {
  const Node* list = present(reader.node(key));
  if (list == nullptr) {
    if (required) reader.error(key, message("{} is missing; list 1 to {}", key, most));
    return {};
  }
  if (!list->is_sequence() || list->sequence().empty() || list->sequence().size() > most) {
    reader.error(key, message("{} must be a list of 1 to {}", key, most));
    return {};
  }
  return list->sequence();
}

std::string name_of(const Node& node, Diagnostics& diagnostics) {
  const Node* name = node.is_map() ? node.find("name") : nullptr;
  if (name != nullptr && name->is_scalar()) return name->scalar();
  diagnostics.error(node.position, message("this needs a name"));
  return "";
}

Node scalar(const std::string& text, const SourcePosition& position) { return {position, text, true}; }

// The rows of a step, or every row in the way of every column, as the cases of a scenario.
Node::Sequence cells(std::span<const Node> rows, std::span<const Node> columns, LessonStep& step,
                     Diagnostics& diagnostics) {
  Node::Sequence cases;
  for (const Node& column : columns) step.columns.push_back(name_of(column, diagnostics));
  for (const Node& row : rows) {
    step.rows.push_back(name_of(row, diagnostics));
    if (columns.empty()) cases.push_back(row);
    if (!row.is_map()) continue;
    for (std::size_t i = 0; i < columns.size(); ++i) {
      if (!columns[i].is_map()) continue;
      Node both = merge(row, columns[i]);
      for (Node::Entry& entry : both.map()) {
        if (entry.key == "name") entry.value = scalar(step.rows.back() + ", " + step.columns[i], row.position);
      }
      cases.push_back(std::move(both));
    }
  }
  return cases;
}

void read_cases(MapReader& reader, const Node* base, const DataFolder& data, LessonStep& step,
                Diagnostics& diagnostics) {
  const std::span<const Node> rows = items(reader, "cases", kMostRows, true);
  const std::span<const Node> columns = items(reader, "across", kMostColumns, false);
  if (rows.empty()) return;
  Node::Map scenario;
  if (base != nullptr) scenario.push_back({"base", base->position, *base});
  scenario.push_back(
      {"cases", reader.position_of("cases"), {reader.position_of("cases"), cells(rows, columns, step, diagnostics)}});
  const Node root{reader.position(), std::move(scenario)};
  if (auto read = read_scenario(root, data, diagnostics)) step.cases = std::move(read->cases);
}

// `others`: the rows that a ratio may be against.
LessonFigure read_figure(const Node& node, const std::vector<std::string>& others, Diagnostics& diagnostics) {
  MapReader reader(node, diagnostics, "show");
  LessonFigure figure;
  figure.figure.position = node.position;
  const auto value = reader.text("value"), ratio = reader.text("ratio");
  if (value.has_value() == ratio.has_value())
    diagnostics.error(node.position, message("a figure to show needs value or ratio"));
  figure.figure.kind = ratio ? Check::Kind::ratio : Check::Kind::value;
  figure.figure.metric = value.value_or(ratio.value_or(""));
  figure.figure.per = reader.text("per").value_or("");
  if (ratio) {
    const std::string against = reader.required_text("against");
    if (std::find(others.begin(), others.end(), against) == others.end()) {
      reader.error("against",
                   message("there is no case {}{}", config::in_quotes(against), did_you_mean(against, others)));
    }
    figure.figure.cases = {against};
  }
  figure.name = reader.text("as").value_or(figure.figure.metric);
  figure.percent = reader.boolean("percent").value_or(false);
  reader.finish();
  return figure;
}

void read_checks(MapReader& reader, LessonStep& step, Diagnostics& diagnostics) {
  std::vector<std::string> names;
  for (const Case& c : step.cases) names.push_back(c.name);
  for (const Node& node : items(reader, "checks", kMostFigures, false)) {
    std::optional<Check> check = read_check(node, diagnostics);
    if (!check) continue;
    for (const std::string& name : check->cases) {
      if (names.empty() || std::find(names.begin(), names.end(), name) != names.end()) continue;
      diagnostics.error(check->position,
                        message("there is no case {}{}", config::in_quotes(name), did_you_mean(name, names)));
    }
    step.checks.push_back(std::move(*check));
  }
}

LessonStep read_step(const Node& node, const Node* shared, const DataFolder& data, Diagnostics& diagnostics) {
  MapReader reader(node, diagnostics, "step");
  LessonStep step;
  step.title = reader.required_text("title");
  step.text = reader.required_text("text");
  const Node* own = present(reader.node("base"));
  std::optional<Node> merged;
  if (own != nullptr && shared != nullptr) merged = merge(*shared, *own);
  read_cases(reader, merged ? &*merged : own != nullptr ? own : shared, data, step, diagnostics);
  for (const Node& figure : items(reader, "show", kMostFigures, true)) {
    step.figures.push_back(read_figure(figure, step.rows, diagnostics));
  }
  if (!step.columns.empty() && step.figures.size() > 1) {
    reader.error("show", message("a step with across shows one figure; leave the others out"));
  }
  read_checks(reader, step, diagnostics);
  reader.finish();
  return step;
}

void read_run(const Node& node, const DataFolder& data, Lesson& lesson, Diagnostics& diagnostics) {
  MapReader reader(node, diagnostics, "run");
  const std::string file = reader.required_text("file"), name = reader.required_text("case");
  reader.finish();
  if (file.empty() || name.empty()) return;
  const std::optional<RunNotes> notes = load_run_notes(data, diagnostics);
  const auto measured = notes ? load_measured(data.path + "/" + file, data, *notes, diagnostics) : std::nullopt;
  if (!measured) return;
  std::vector<std::string> names;
  for (const MeasuredCase& c : measured->cases) {
    names.push_back(c.name);
    if (c.name != name) continue;
    if (!c.subject || (!c.measured.step_time_s && !c.measured.memory_per_gpu)) {
      return reader.error("case", message("{} cannot be simulated, or nothing was measured", name));
    }
    lesson.measured.push_back({name, *c.subject, c.measured, measured->source_title, measured->source_url});
    return;
  }
  reader.error("case", message("{} has no case {}{}", file, config::in_quotes(name), did_you_mean(name, names)));
}

}  // namespace

std::optional<Lesson> read_lesson(const Node& root, const DataFolder& data, Diagnostics& diagnostics) {
  const int errors_before = diagnostics.error_count();
  MapReader reader(root, diagnostics, "");
  Lesson lesson;
  lesson.title = reader.required_text("title");
  lesson.text = reader.required_text("text");
  const Node* base = present(reader.node("base"));
  for (const Node& step : items(reader, "steps", kMostSteps, true)) {
    lesson.steps.push_back(read_step(step, base, data, diagnostics));
  }
  if (const Node* node = present(reader.node("measured"))) {
    MapReader measured(*node, diagnostics, "measured");
    lesson.measured_text = measured.required_text("text");
    for (const Node& run : items(measured, "runs", kMostRuns, true)) read_run(run, data, lesson, diagnostics);
    measured.finish();
  }
  if (const Node* node = present(reader.node("what_if"))) {
    lesson.what_if = read_what_if(*node, base, data, diagnostics);
  }
  reader.finish();
  if (diagnostics.error_count() > errors_before) return std::nullopt;
  return lesson;
}

std::optional<Lesson> load_lesson(const std::string& path, const DataFolder& data, Diagnostics& diagnostics) {
  const std::optional<Node> root = config::parse_yaml_file(path, diagnostics);
  std::optional<Lesson> lesson = root ? read_lesson(*root, data, diagnostics) : std::nullopt;
  if (lesson) lesson->name = std::filesystem::path(path).stem().string();
  return lesson;
}

std::vector<std::string> lesson_names(const DataFolder& data) {
  std::vector<std::string> names;
  std::error_code unreadable;
  for (const auto& entry : std::filesystem::directory_iterator(data.path + "/lessons", unreadable)) {
    if (entry.path().extension() == ".yaml") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string lesson_path(const DataFolder& data, const std::string& name) {
  return data.path + "/lessons/" + name + ".yaml";
}

}  // namespace foretrain
