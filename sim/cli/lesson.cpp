#include "sim/lessons/lesson.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "sim/cli/command.h"
#include "sim/cli/help.h"
#include "sim/cli/output.h"
#include "sim/config/quote.h"
#include "sim/report/case_figures.h"
#include "sim/report/lesson_report.h"

namespace foretrain::cli {
namespace {

struct LessonOptions : CommonOptions {
  std::string name;
};

// A lesson of the data folder by its name, or any file by its path.
std::optional<Lesson> find_lesson(const std::string& name, const DataFolder& data, Diagnostics& diagnostics) {
  const std::vector<std::string> known = lesson_names(data);
  if (std::find(known.begin(), known.end(), name) != known.end()) {
    return load_lesson(lesson_path(data, name), data, diagnostics);
  }
  if (name.ends_with(".yaml")) return load_lesson(name, data, diagnostics);
  diagnostics.error({}, message("there is no lesson {}{}; there are {}", config::in_quotes(name),
                                did_you_mean(name, known), fmt::join(known, ", ")));
  return std::nullopt;
}

int list_lessons(const LessonOptions& options) {
  Diagnostics diagnostics;
  const std::optional<DataFolder> data = find_data(options, diagnostics);
  std::vector<Lesson> lessons;
  for (const std::string& name : data ? lesson_names(*data) : std::vector<std::string>{}) {
    if (auto lesson = load_lesson(lesson_path(*data, name), *data, diagnostics)) lessons.push_back(std::move(*lesson));
  }
  print(diagnostics, options.words, true);
  if (diagnostics.has_errors()) return kBadInput;
  return deliver(options, [&] { return report::lessons_text(lessons, standard_output(options)); },
                 {{options.json, [&] { return report::lessons_json(lessons); }}});
}

int lesson(const LessonOptions& options) {
  if (options.name.empty() && !options.html.empty())
    return fail(options.words, message("a page is made of one lesson; name it"));
  if (options.name.empty()) return list_lessons(options);
  Diagnostics diagnostics;
  const std::optional<DataFolder> data = find_data(options, diagnostics);
  const std::optional<Lesson> found = data ? find_lesson(options.name, *data, diagnostics) : std::nullopt;
  const auto environment = found ? load_environment(*data, diagnostics) : std::nullopt;
  const SimulateFigures simulate = [&](const Case& c) {
    return report::case_figures(simulate_case(c, *environment, {.with_advice = false, .with_elasticity = false}));
  };
  const auto page = environment ? page_template(options, *data, diagnostics) : std::nullopt;
  const auto performed = environment ? perform(*found, simulate, threads_of(options), diagnostics) : std::nullopt;
  std::optional<Explored> explored;
  if (performed && found->what_if && !(options.html.empty() && options.json.empty())) {
    explored = explore(*found->what_if, simulate, threads_of(options), diagnostics);
  }
  print(diagnostics, options.words, true);  // what a lesson's cases assume is part of the lesson
  if (!performed || diagnostics.has_errors()) return kBadInput;
  const Explored* points = explored ? &*explored : nullptr;
  return deliver(options, [&] { return report::lesson_text(*performed, standard_output(options)); },
                 {{options.json, [&] { return report::lesson_json(*performed, points); }},
                  {options.html, [&] { return page::lesson_page(*performed, points, *page, origin_of(options)); }}});
}

}  // namespace

Command lesson_command(CLI::App& program, const CommonOptions& common) {
  const report::Words& words = common.words;
  CLI::App& parser = *program.add_subcommand("lesson", words("walk through what training costs, by simulating it"));
  const auto options = starting_from<LessonOptions>(common);
  parser.add_option("NAME", options->name, words("a lesson, or a file of your own (YAML); without it they are listed"));
  add_output_options(parser, *options, false);
  add_html_option(parser, *options);
  add_threads_option(parser, *options);
  add_data_option(parser, *options);
  add_examples(
      parser, words,
      {{"foretrain lesson"},
       {"foretrain lesson nvlink"},
       {"foretrain lesson what-if --html what-if.html"},
       {"foretrain lesson bubble --json - | jq '.steps[0].cases'"}},
      words("Every table is simulated when it is shown, and each lesson ends with a run that somebody measured."));
  return {&parser, [&parser, options] {
            options->command = command_line(parser);
            return lesson(*options);
          }};
}

}  // namespace foretrain::cli
