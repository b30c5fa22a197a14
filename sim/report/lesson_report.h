#pragma once

#include <span>
#include <string>

#include "sim/lessons/lesson.h"
#include "sim/report/terminal.h"

namespace foretrain::report {

// A lesson for people: each step with its text and table, and at the end what was measured beside what is predicted.
std::string lesson_text(const PerformedLesson& lesson, const Terminal& terminal);

// The lessons there are, by name and title.
std::string lessons_text(std::span<const Lesson> lessons, const Terminal& terminal);

// The same for programs.
// `explored`: of the lesson's what-if, to six digits, in the order of its combinations; null if it has none.
std::string lesson_json(const PerformedLesson& lesson, const Explored* explored = nullptr);
std::string lessons_json(std::span<const Lesson> lessons);

}  // namespace foretrain::report
