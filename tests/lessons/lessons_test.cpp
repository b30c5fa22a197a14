#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "sim/report/case_figures.h"
#include "sim/report/claims_report.h"
#include "sim/report/lesson_report.h"
#include "tests/support/cases.h"
#include "tests/support/text.h"

using namespace foretrain;
using namespace foretrain::testing;

namespace {

Figures figures_of(const Case& c) {
  return report::case_figures(simulate_case(c, environment(), {.with_advice = false}));
}

const char* const kLesson = R"(title: T
text: U
base: {model: gpt-3-1.3b, software: torch-ddp, train: {seq_len: 1024, global_batch: 8, precision: bf16}}
steps:
  - title: S
    text: V
    base: {cluster: {gpu: a100-sxm4-80gb, gpus: 4, gpus_per_node: 4, intra: pcie}}
    cases: [{name: a}, {name: b, cluster: {intra: nvswitch}}]
    across: [{name: x}, {name: y, train: {global_batch: 16}}]
    show: [{ratio: step_time_s, against: b, as: to b}]
    checks: [{ascending: step_time_s, of: ["b, x", "a, x"]}, {fits: "a, y"}, {value: step_time_s, of: "a, x", at_most: 1e-9}]
)";

std::optional<Lesson> loaded(const std::string& text, Diagnostics& diagnostics) {
  const auto document = config::parse_yaml(text, "test", diagnostics);
  return document ? read_lesson(*document, data_folder(), diagnostics) : std::nullopt;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  REQUIRE(text.find(from) != std::string::npos);
  return text.replace(text.find(from), from.size(), to);
}

}  // namespace

TEST_CASE("every lesson runs, its tables have figures, and what it says comes out") {
  const std::vector<std::string> names = lesson_names(data_folder());
  for (const char* wanted : {"nvlink", "zero", "bubble", "offload", "memory", "recompute", "scaling", "moe"}) {
    CHECK(std::find(names.begin(), names.end(), wanted) != names.end());
  }
  for (const std::string& name : names) {
    CAPTURE(name);
    Diagnostics diagnostics;
    const auto lesson = load_lesson(lesson_path(data_folder(), name), data_folder(), diagnostics);
    REQUIRE_MESSAGE(lesson, to_string(diagnostics.all().front()));
    const auto performed = perform(*lesson, figures_of, 2, diagnostics);
    REQUIRE(performed);
    for (const PerformedStep& step : performed->steps) {
      CAPTURE(step.step->title);
      CHECK(step.figures.size() == step.step->rows.size() * step.step->width());
      for (const auto& row : step.figures) {
        CHECK(row.size() == step.step->figures.size());
        for (const double figure : row) CHECK(std::isfinite(figure));
      }
      CHECK_FALSE(step.checks.empty());
      for (std::size_t i = 0; i < step.checks.size(); ++i) {
        CAPTURE(report::description_of(step.step->checks[i]).english());
        CHECK(step.checks[i].holds);
      }
    }
    REQUIRE_FALSE(lesson->measured.empty());
    for (std::size_t i = 0; i < lesson->measured.size(); ++i) {
      CAPTURE(lesson->measured[i].name);
      CHECK(lesson->measured[i].source_url.starts_with("https://"));
      const auto near = [](double predicted, double measured) { return std::abs(predicted / measured - 1) < 0.5; };
      const auto& [step_time_s, memory_bytes] = performed->predictions[i];
      const Measured& measured = lesson->measured[i].measured;
      if (measured.step_time_s) CHECK(near(step_time_s, *measured.step_time_s));
      if (measured.memory_per_gpu) CHECK(near(memory_bytes, measured.memory_per_gpu->value));
    }
  }
}

TEST_CASE("a row is compared with another row of its own column") {
  Diagnostics diagnostics;
  const auto lesson = loaded(kLesson, diagnostics);
  REQUIRE(lesson);
  const LessonStep& step = lesson->steps.front();
  CHECK(step.rows == std::vector<std::string>{"a", "b"});
  CHECK(step.columns == std::vector<std::string>{"x", "y"});
  REQUIRE(step.cases.size() == 4);
  CHECK(step.cases[1].name == "a, y");
  CHECK(step.cases[1].train.global_batch == 16);
  const auto performed = perform(*lesson, figures_of, 1, diagnostics);
  REQUIRE(performed);
  const auto seconds = [&](std::size_t i) { return figures_of(step.cases[i]).at("step_time_s"); };
  const auto& figures = performed->steps.front().figures;
  CHECK(figures[0][0] == doctest::Approx(seconds(0) / seconds(2)));
  CHECK(figures[1][0] == doctest::Approx(seconds(1) / seconds(3)));
  CHECK(figures[2][0] == 1);
  CHECK(figures[3][0] == 1);
  const auto& checks = performed->steps.front().checks;
  CHECK(checks[0].holds);
  CHECK(checks[1].holds);
  CHECK_FALSE(checks[2].holds);
  CHECK(report::lesson_text(*performed, {}).find("does not hold here: step_time_s of a, x") != std::string::npos);
  const auto json = nlohmann::json::parse(report::lesson_json(*performed));
  CHECK(json["steps"][0]["cases"][1]["row"] == "a");
  CHECK(json["steps"][0]["cases"][1]["column"] == "y");
  CHECK(json["steps"][0]["cases"][1]["figures"]["to b"] == figures[1][0]);
  CHECK(json["steps"][0]["checks"][2]["holds"] == false);
}

TEST_CASE("the same bytes from any number of threads") {
  Diagnostics diagnostics;
  const auto lesson = loaded(kLesson, diagnostics);
  REQUIRE(lesson);
  CHECK(report::lesson_json(*perform(*lesson, figures_of, 1, diagnostics)) ==
        report::lesson_json(*perform(*lesson, figures_of, 4, diagnostics)));
}

TEST_CASE("wrong lessons are refused with what would be right") {
  const auto check = [](const std::string& from, const std::string& to, const std::string& message) {
    CAPTURE(to);
    Diagnostics diagnostics;
    CHECK_FALSE(loaded(replaced(kLesson, from, to), diagnostics));
    const std::string said = foretrain::testing::shown(diagnostics);
    CHECK_MESSAGE(said.find(message) != std::string::npos, said);
  };
  check("title: T\n", "", "title");
  check("title: S", "titel: S", "did you mean 'title'");
  check("against: b", "against: c", "there is no case 'c'");
  check("[\"b, x\", \"a, x\"]", "[\"b, x\", \"a, z\"]", "there is no case 'a, z'");
  check("{name: a}", "{nam: a}", "needs a name");
  check("{ratio: step_time_s, against: b, as: to b}", "{as: nothing}", "needs value or ratio");
  check("{ratio: step_time_s, against: b, as: to b}", "{value: step_time_s}, {value: mfu}", "shows one figure");
  check("global_batch: 8", "global_batch: many", "global_batch");
  check("steps:", "steps: []\nother:", "steps must be a list");
}

TEST_CASE("a figure that does not exist is an error") {
  Diagnostics diagnostics;
  const auto lesson = loaded(replaced(kLesson, "ratio: step_time_s", "ratio: step_tim_s"), diagnostics);
  REQUIRE(lesson);
  CHECK_FALSE(perform(*lesson, figures_of, 1, diagnostics));
  CHECK(diagnostics.has_errors());
}

namespace {

const char* const kSliders = R"(what_if:
  text: W
  base: {cluster: {gpu: a100-sxm4-80gb, gpus: 2, gpus_per_node: 2}}
  sliders:
    - {name: link, start: NVSwitch, positions: [{name: PCIe, cluster: {intra: pcie}}, {name: NVSwitch, cluster: {intra: nvswitch}}]}
    - name: batch
      start: "8"
      positions: [{name: "8"}, {name: "16", train: {global_batch: 16}}, {name: "32", train: {global_batch: 32}}]
)";

}  // namespace

TEST_CASE("a what-if is every combination of its sliders, each simulated as if it stood alone") {
  Diagnostics diagnostics;
  const auto lesson = loaded(kLesson + std::string(kSliders), diagnostics);
  REQUIRE_MESSAGE(lesson, to_string(diagnostics.all().front()));
  REQUIRE(lesson->what_if);
  const WhatIf& what_if = *lesson->what_if;
  CHECK(what_if.sliders[0].start == 1);
  CHECK(what_if.sliders[1].start == 0);
  REQUIRE(what_if.cases.size() == 6);
  CHECK(what_if.cases[1].name == "PCIe, 16");  // the last slider moves fastest
  CHECK(what_if.cases[5].name == "NVSwitch, 32");
  CHECK(what_if.cases[5].train.global_batch == 32);
  const auto explored = explore(what_if, figures_of, 2, diagnostics);
  REQUIRE(explored);
  const auto names = what_if_figures();
  for (std::size_t i = 0; i < explored->size(); ++i) {
    const Figures alone = figures_of(what_if.cases[i]);
    double parts = 0;
    for (std::size_t f = 0; f < names.size(); ++f) {
      CHECK((*explored)[i][f] == alone.at(std::string(names[f])));
      if (names[f].starts_with("breakdown_s.")) parts += (*explored)[i][f];
    }
    CHECK(parts == doctest::Approx(alone.at("step_time_s")));  // no part of the step is missing
  }
  const auto performed = perform(*lesson, figures_of, 1, diagnostics);
  REQUIRE(performed);
  CHECK(report::lesson_text(*performed, {}).find("6 positions simulated: link, batch") != std::string::npos);
  CHECK_FALSE(nlohmann::json::parse(report::lesson_json(*performed)).contains("what_if"));
  const auto json = nlohmann::json::parse(report::lesson_json(*performed, &*explored))["what_if"];
  CHECK(json["sliders"][1]["positions"] == nlohmann::json{"8", "16", "32"});
  REQUIRE(json["points"].size() == 6);
  CHECK(json["points"][4][0].get<double>() == doctest::Approx((*explored)[4][0]).epsilon(1e-5));
}

TEST_CASE("wrong sliders are refused with what would be right") {
  const auto check = [](const std::string& from, const std::string& to, const std::string& message) {
    CAPTURE(to);
    Diagnostics diagnostics;
    CHECK_FALSE(loaded(kLesson + replaced(kSliders, from, to), diagnostics));
    const std::string said = foretrain::testing::shown(diagnostics);
    CHECK_MESSAGE(said.find(message) != std::string::npos, said);
  };
  check("start: NVSwitch", "start: NVSwich", "there is no position 'NVSwich'; did you mean 'NVSwitch'?");
  check("{name: PCIe, ", "{nam: PCIe, ", "a position needs a name");
  check("[{name: \"8\"}, ", "[8, ", "a position needs a name");
  check("text: W", "words: W", "text");
  check("intra: pcie", "intra: string", "intra");
  check("base: {cluster", "base: {clutser", "did you mean");
  check(
      "positions: [{name: \"8\"}, {name: \"16\", train: {global_batch: 16}}, {name: \"32\", train: {global_batch: "
      "32}}]",
      "positions: []", "positions must be a list of 1 to");
  std::string many = "sliders:\n";
  for (int slider = 0; slider < 8; ++slider) {
    many += "    - {name: s, start: a, positions: [{name: a}, {name: b}, {name: c}]}\n";
  }
  check("sliders:\n", many, "sliders must be a list of 1 to 8");  // nine
  const std::string eight = "title: T\ntext: U\nsteps: []\nwhat_if:\n  text: W\n  " + many;
  Diagnostics diagnostics;
  CHECK_FALSE(loaded(eight, diagnostics));
  const std::string said = foretrain::testing::shown(diagnostics);
  CHECK_MESSAGE(said.find("6561 combinations; at most 5000") != std::string::npos, said);
}
