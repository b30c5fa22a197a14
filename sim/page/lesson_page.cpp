#include "sim/page/assembly.h"
#include "sim/report/claims_report.h"

namespace foretrain::page {
namespace {

using report::Json;

// How a figure is to be written.
const char* form_of(const LessonFigure& shown) {
  if (shown.figure.metric == "fits") return "yes or no";
  if (shown.percent) return "share";
  switch (unit_of(shown.figure)) {
    case config::Unit::bytes:
      return "bytes";
    case config::Unit::bytes_rate:
      return "bytes per second";
    case config::Unit::seconds:
      return "seconds";
    default:
      return "number";
  }
}

void add_texts(const Lesson& lesson, Sentences& sentences) {
  for (const std::string& text : {lesson.title, lesson.text, lesson.measured_text}) sentences.add_text(text);
  for (const LessonStep& step : lesson.steps) {
    sentences.add_text(step.title);
    sentences.add_text(step.text);
    for (const std::string& row : step.rows) sentences.add_text(row);
    for (const std::string& column : step.columns) sentences.add_text(column);
    for (const LessonFigure& figure : step.figures) sentences.add_text(figure.name);
    for (const Check& check : step.checks) sentences.add(report::description_of(check));
  }
  if (!lesson.what_if) return;
  sentences.add_text(lesson.what_if->text);
  for (const WhatIf::Slider& slider : lesson.what_if->sliders) {
    sentences.add_text(slider.name);
    for (const std::string& position : slider.positions) sentences.add_text(position);
  }
}

}  // namespace

std::string lesson_page(const PerformedLesson& performed, const Explored* explored, const Template& page,
                        const Origin& origin) {
  const Lesson& lesson = *performed.lesson;
  Sentences sentences(page.chinese);
  add_texts(lesson, sentences);
  Json forms = Json::array();  // of the figures of every step
  for (const LessonStep& step : lesson.steps) {
    Json of_step = Json::array();
    for (const LessonFigure& figure : step.figures)
      of_step.push_back({{"name", figure.name}, {"form", form_of(figure)}});
    forms.push_back(std::move(of_step));
  }
  return assembled(page, "lesson", taken_up(report::lesson_json(performed, explored)), {}, std::move(sentences),
                   {{"figures", std::move(forms)}}, origin);
}

}  // namespace foretrain::page
