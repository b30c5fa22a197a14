#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "sim/base/parallel.h"
#include "sim/calibration/validate.h"
#include "sim/scenario/run_notes.h"
#include "tests/support/cases.h"

using namespace foretrain;
using namespace foretrain::testing;

namespace {

const std::string kFolder = std::string(FORETRAIN_SOURCE_DIR) + "/tests/validation";

RunNotes run_notes() {
  Diagnostics diagnostics;
  auto notes = load_run_notes(data_folder(), diagnostics);
  REQUIRE(notes);
  return std::move(*notes);
}

std::vector<MeasuredFile> measured_files() {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder + "/measured")) {
    if (entry.path().extension() == ".yaml") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  const RunNotes notes = run_notes();
  std::vector<MeasuredFile> files;
  for (const std::string& path : paths) {
    Diagnostics diagnostics;
    auto file = load_measured(path, data_folder(), notes, diagnostics);
    CAPTURE(path);
    REQUIRE(file);
    files.push_back(std::move(*file));
  }
  return files;
}

// Most mean error of a source, in per cent: step time and, where given, memory.
struct Bound {
  double time = 0;
  std::optional<double> memory;
};

std::map<std::string, Bound> bounds() {
  Diagnostics diagnostics;
  const auto document = config::parse_yaml_file(kFolder + "/bounds.yaml", diagnostics);
  REQUIRE(document);
  config::MapReader file(*document, diagnostics, "bounds");
  std::map<std::string, Bound> result;
  for (const auto& entry : file.node("bounds")->map()) {
    config::MapReader map(entry.value, diagnostics, entry.key);
    Bound& bound = result[entry.key];
    bound.time = map.number("time").value_or(0);
    bound.memory = map.number("memory");
    map.finish();
  }
  file.finish();
  REQUIRE_FALSE(diagnostics.has_errors());
  return result;
}

}  // namespace

TEST_CASE("predictions of published runs are as near as they were") {
  const std::vector<MeasuredFile> files = measured_files();
  const Validation validation = validate(
      files, [](const Case& c) { return simulate_plainly(c); }, default_threads());
  const std::map<std::string, Bound> most = bounds();
  std::size_t found = 0;
  for (std::size_t f = 0; f < files.size(); ++f) {
    const std::string name = std::filesystem::path(files[f].path).stem();
    const Accuracy& accuracy = validation.sources[f].accuracy;
    CHECK(accuracy.failures == 0);
    const auto bound = most.find(name);
    if (bound == most.end()) continue;
    ++found;
    CAPTURE(name);
    if (bound->second.time > 0) {
      REQUIRE(accuracy.mape);
      CHECK(100 * *accuracy.mape <= bound->second.time);
    }
    if (bound->second.memory) {
      REQUIRE(accuracy.memory_mape);
      CHECK(100 * *accuracy.memory_mape <= *bound->second.memory);
    }
  }
  CHECK(found == most.size());  // a bound for a source that is gone checks nothing
}

TEST_CASE("every file of measured runs loads, and what is refused names a feature") {
  for (const MeasuredFile& file : measured_files()) {
    CAPTURE(file.path);
    CHECK_FALSE(file.source_title.empty());
    CHECK_FALSE(file.cases.empty());
    for (const MeasuredCase& c : file.cases) {
      CHECK_FALSE(c.faulty);
      CHECK(c.subject.has_value() == c.refusals.empty());
    }
  }
}

TEST_CASE("runs that the notes speak of exist") {
  const RunNotes notes = run_notes();
  std::vector<std::string> names;
  for (const MeasuredFile& file : measured_files()) {
    for (const MeasuredCase& c : file.cases) names.push_back(c.name);
  }
  for (const auto& [name, why] : notes.flags) {
    CAPTURE(name);
    CHECK(std::count(names.begin(), names.end(), name) == 1);
  }
  for (const Correction& correction : notes.corrections) {
    CAPTURE(correction.why);
    for (const std::string& pattern : correction.runs) {
      CAPTURE(pattern);
      const Correction of_pattern{{pattern}, {}, "", ""};
      CHECK(std::any_of(names.begin(), names.end(), [&](const auto& name) { return of_pattern.concerns(name); }));
    }
  }
}
