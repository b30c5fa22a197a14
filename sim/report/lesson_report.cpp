#include "sim/report/lesson_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/report/claims_report.h"
#include "sim/report/figures.h"
#include "sim/report/json_support.h"

namespace foretrain::report {
namespace {

std::string cell_text(const LessonFigure& shown, double value, const Words& words) {
  if (shown.figure.metric == "fits") return value > 0 ? words("yes") : words("NO");
  return shown.percent ? percent(value) : figure_text(value, unit_of(shown.figure));
}

std::string paragraph(const std::string& text, const Terminal& terminal) {
  return wrapped(printable(terminal.words.text(text)), terminal.width, 0) + "\n\n";
}

// Cases down and figures across; or rows down and columns across, of the one figure.
std::string step_table(const PerformedStep& performed, const Terminal& terminal) {
  const LessonStep& step = *performed.step;
  const bool grid = !step.columns.empty();
  const Words& words = terminal.words;
  std::vector<std::string> header = {grid ? words.text(step.figures.front().name) : ""};
  for (const std::string& column : step.columns) header.push_back(words.text(column));
  for (std::size_t i = 0; i < step.figures.size() && !grid; ++i) header.push_back(words.text(step.figures[i].name));
  TextTable table(header);
  for (std::size_t row = 0; row < step.rows.size(); ++row) {
    std::vector<TextTable::Cell> cells = {{printable(words.text(step.rows[row]))}};
    for (std::size_t i = 0; i < step.width(); ++i) {
      const std::vector<double>& figures = performed.figures[row * step.width() + i];
      for (std::size_t f = 0; f < figures.size(); ++f) cells.push_back({cell_text(step.figures[f], figures[f], words)});
    }
    table.add(std::move(cells));
  }
  return table.text(terminal);
}

std::string checks_text(const PerformedStep& performed, const Terminal& terminal) {
  std::string text;
  for (std::size_t i = 0; i < performed.checks.size(); ++i) {
    if (performed.checks[i].holds) continue;
    const Check& check = performed.step->checks[i];
    const Message said = check.when.empty() ? description_of(check) : Message(check.when);
    text += styled(printable(terminal.words("does not hold here: {}", said)), Style::bad, terminal) + "\n";
  }
  return text.empty() ? "" : text + "\n";
}

std::string measured_text(const PerformedLesson& performed, const Terminal& terminal) {
  const Lesson& lesson = *performed.lesson;
  if (lesson.measured.empty()) return "";
  const Words& words = terminal.words;
  std::string text =
      styled(words("As measured"), Style::bold, terminal) + "\n" + paragraph(lesson.measured_text, terminal);
  TextTable table({words("run"), words("of"), words("measured"), words("predicted"), words("error")});
  table.align_left(1);
  std::vector<std::string> sources;
  for (std::size_t i = 0; i < lesson.measured.size(); ++i) {
    const LessonRun& run = lesson.measured[i];
    const auto add = [&](const std::string& what, double measured, double predicted, const auto& shown) {
      table.add({{printable(run.name)},
                 {what},
                 {shown(measured)},
                 {shown(predicted)},
                 {signed_percent(predicted / measured - 1)}});
    };
    if (const auto time = run.measured.step_time_s) {
      add(words("step time"), *time, performed.predictions[i].step_time_s,
          [](double s) { return significant(s, 4) + " s"; });
    }
    if (const auto memory = run.measured.memory_per_gpu) {
      add(words("memory"), memory->value, performed.predictions[i].memory_bytes,
          [](double bytes) { return figure_text(bytes, config::Unit::bytes); });
    }
    const std::string source = words("source: {}, {}", run.source_title, run.source_url);
    if (std::find(sources.begin(), sources.end(), source) == sources.end()) sources.push_back(source);
  }
  text += table.text(terminal);
  for (const std::string& source : sources) text += wrapped(printable(source), terminal.width, 2) + "\n";
  return text;
}

Json step_json(const PerformedStep& performed) {
  const LessonStep& step = *performed.step;
  Json json{{"title", step.title}, {"text", step.text}, {"cases", Json::array()}, {"checks", Json::array()}};
  for (std::size_t i = 0; i < step.cases.size(); ++i) {
    Json one{{"name", step.cases[i].name}, {"row", step.rows[i / step.width()]}};
    one["column"] = step.columns.empty() ? Json(nullptr) : Json(step.columns[i % step.width()]);
    for (std::size_t f = 0; f < step.figures.size(); ++f)
      one["figures"][step.figures[f].name] = performed.figures[i][f];
    json["cases"].push_back(std::move(one));
  }
  for (std::size_t i = 0; i < step.checks.size(); ++i) {
    json["checks"].push_back(
        {{"check", description_of(step.checks[i]).english()}, {"holds", performed.checks[i].holds}});
  }
  return json;
}

Json what_if_json(const WhatIf& what_if, const Explored& explored) {
  Json json{{"text", what_if.text}, {"sliders", Json::array()}, {"figures", Json::array()}, {"points", Json::array()}};
  for (const WhatIf::Slider& slider : what_if.sliders) {
    json["sliders"].push_back({{"name", slider.name}, {"positions", slider.positions}, {"start", slider.start}});
  }
  for (const std::string_view figure : what_if_figures()) json["figures"].push_back(figure);
  for (const std::vector<double>& figures : explored) {
    Json point = Json::array();
    for (const double figure : figures) point.push_back(Json::parse(fmt::format("{:.6g}", figure), nullptr, false));
    for (Json& figure : point) {
      if (figure.is_discarded()) figure = nullptr;
    }
    json["points"].push_back(std::move(point));
  }
  return json;
}

std::string what_if_text(const WhatIf& what_if, const Terminal& terminal) {
  std::vector<Message> names;
  for (const WhatIf::Slider& slider : what_if.sliders) names.push_back(terminal.words.text(slider.name));
  const Message said = message("with --html FILE a page with sliders, every one of their {} positions simulated: {}",
                               grouped(static_cast<double>(what_if.cases.size())), joined(names, message(", ")));
  return wrapped(printable(terminal.words(said)), terminal.width, 0) + "\n";
}

}  // namespace

std::string lesson_text(const PerformedLesson& performed, const Terminal& terminal) {
  const Lesson& lesson = *performed.lesson;
  std::string text = styled(printable(terminal.words.text(lesson.title)), Style::bold, terminal) + "\n\n" +
                     paragraph(lesson.text, terminal);
  for (std::size_t i = 0; i < performed.steps.size(); ++i) {
    const LessonStep& step = *performed.steps[i].step;
    text +=
        styled(fmt::format("{}. {}", i + 1, printable(terminal.words.text(step.title))), Style::bold, terminal) + "\n";
    text += paragraph(step.text, terminal) + step_table(performed.steps[i], terminal) + "\n";
    text += checks_text(performed.steps[i], terminal);
  }
  text += measured_text(performed, terminal);
  return lesson.what_if ? text + what_if_text(*lesson.what_if, terminal) : text;
}

std::string lessons_text(std::span<const Lesson> lessons, const Terminal& terminal) {
  TextTable table({terminal.words("lesson"), "", terminal.words("steps")});
  table.align_left(1);
  for (const Lesson& lesson : lessons) {
    table.add({{printable(lesson.name), Style::bold},
               {printable(terminal.words.text(lesson.title))},
               {std::to_string(lesson.steps.size())}});
  }
  return table.text(terminal);
}

std::string lessons_json(std::span<const Lesson> lessons) {
  Json json{{"schema", 1}, {"lessons", Json::array()}};
  for (const Lesson& lesson : lessons) json["lessons"].push_back({{"name", lesson.name}, {"title", lesson.title}});
  return dumped(json);
}

std::string lesson_json(const PerformedLesson& performed, const Explored* explored) {
  const Lesson& lesson = *performed.lesson;
  Json json{{"schema", 1}, {"lesson", lesson.name}, {"title", lesson.title}, {"text", lesson.text}};
  json["steps"] = Json::array();
  for (const PerformedStep& step : performed.steps) json["steps"].push_back(step_json(step));
  json["measured_text"] = lesson.measured_text;
  json["measured"] = Json::array();
  for (std::size_t i = 0; i < lesson.measured.size(); ++i) {
    const LessonRun& run = lesson.measured[i];
    const auto& [step_time_s, memory_bytes] = performed.predictions[i];
    Json one{{"name", run.name}, {"source", run.source_url}};
    if (const auto time = run.measured.step_time_s) {
      one["measured_step_time_s"] = *time;
      one["predicted_step_time_s"] = step_time_s;
      one["error"] = step_time_s / *time - 1;
    }
    if (const auto memory = run.measured.memory_per_gpu) {
      one["measured_memory_bytes"] = memory->value;
      one["predicted_memory_bytes"] = memory_bytes;
      one["memory_error"] = memory_bytes / memory->value - 1;
    }
    json["measured"].push_back(std::move(one));
  }
  if (lesson.what_if && explored != nullptr) json["what_if"] = what_if_json(*lesson.what_if, *explored);
  return dumped(json);
}

}  // namespace foretrain::report
