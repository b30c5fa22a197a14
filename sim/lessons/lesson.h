#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/claims/claims.h"
#include "sim/scenario/scenario.h"

namespace foretrain {

// A figure that a step shows of each of its cases: the figure itself, or its ratio to that of one case.
struct LessonFigure {
  std::string name;  // heads its column
  Check figure;      // Kind::value, or Kind::ratio with the case it is compared with as its only case
  bool percent = false;
};

// One step of a lesson: some runs, what to look at, and what must come out.
struct LessonStep {
  std::string title, text;
  std::vector<std::string> rows;
  std::vector<std::string> columns;   // where every row is run in several ways; empty otherwise
  std::vector<Case> cases;            // row by row
  std::vector<LessonFigure> figures;  // one alone where there are columns
  std::vector<Check> checks;          // what the text says

  std::size_t width() const { return columns.empty() ? 1 : columns.size(); }
};

// A run that somebody measured and published, at the end of a lesson.
struct LessonRun {
  std::string name;
  Case subject;
  Measured measured;
  std::string source_title, source_url;
};

// What a reader may change at the end of a lesson: sliders, each with named positions. Every combination is a case.
struct WhatIf {
  struct Slider {
    std::string name;
    std::vector<std::string> positions;
    std::size_t start = 0;  // where it stands at first
  };
  std::string text;
  std::vector<Slider> sliders;
  std::vector<Case> cases;  // of every combination; the position of the last slider changes fastest
};

// A short walk made of simulated runs.
struct Lesson {
  std::string name, title, text;
  std::vector<LessonStep> steps;
  std::string measured_text;
  std::vector<LessonRun> measured;
  std::optional<WhatIf> what_if;
};

// A file of a lesson:
//
//   title: TEXT
//   text: TEXT
//   base: {...}                                  # of the cases of all steps
//   steps:
//     - title: TEXT
//       text: TEXT
//       base: {...}                              # merged over that of the lesson
//       cases: [{name, ...}, ...]                # as in a scenario: the rows of a table
//       across: [{name, ...}, ...]               # optional: its columns; each is merged over every case, and the case
//                                                # is then called "ROW, COLUMN"
//       show:                                    # what to tabulate: one figure if there is `across`
//         - {value: METRIC, as: NAME, per: METRIC, percent: true}
//         - {ratio: METRIC, against: CASE, as: NAME}       # with `across`: the row that is compared with
//       checks: [...]                            # as of a claim: what the text says of the figures
//   measured:
//     text: TEXT
//     runs: [{file: PATH, case: NAME}, ...]      # of a file of measured runs, from the data folder
//   what_if:                                     # optional
//     text: TEXT
//     base: {...}                                # merged over that of the lesson
//     sliders:                                   # at most 5,000 combinations
//       - {name: TEXT, start: NAME, positions: [{name, ...}, ...]}   # merged over the base, as a case
//
// nullopt if anything is wrong.
std::optional<Lesson> load_lesson(const std::string& path, const DataFolder& data, Diagnostics& diagnostics);
std::optional<Lesson> read_lesson(const config::Node& document, const DataFolder& data, Diagnostics& diagnostics);

// Names of the lessons in the data folder, in order.
std::vector<std::string> lesson_names(const DataFolder& data);
std::string lesson_path(const DataFolder& data, const std::string& name);

struct PerformedStep {
  const LessonStep* step = nullptr;
  std::vector<std::vector<double>> figures;  // [case][figure]
  std::vector<CheckOutcome> checks;
};
struct PerformedLesson {
  const Lesson* lesson = nullptr;
  std::vector<PerformedStep> steps;
  struct Prediction {
    double step_time_s = 0;
    double memory_bytes = 0;  // of the kind that was measured
  };
  std::vector<Prediction> predictions;  // of the measured runs
};

// What the figures of a what-if are: those of `run` by their names, and all parts of the breakdown.
std::span<const std::string_view> what_if_figures();
// Of every case of a what-if these figures; NaN where the case has none.
using Explored = std::vector<std::vector<double>>;
std::optional<Explored> explore(const WhatIf& what_if, const SimulateFigures& simulate, int threads,
                                Diagnostics& diagnostics);

// Simulates every case of a lesson, which must outlive the result, on up to `threads` threads. nullopt after reporting
// figures that do not exist and cases out of all proportion.
std::optional<PerformedLesson> perform(const Lesson& lesson, const SimulateFigures& simulate, int threads,
                                       Diagnostics& diagnostics);

}  // namespace foretrain
