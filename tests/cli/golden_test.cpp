// The answers to all scenarios, byte for byte. A change that is meant: tools/update-golden, and look at the difference.

#include <doctest/doctest.h>

#include <set>

#include "tests/cli/program.h"

using namespace foretrain::testing;

namespace {

std::set<std::string> stems(const std::string& folder, const std::string& extension) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(FORETRAIN_SOURCE_DIR "/") + folder)) {
    if (entry.path().extension() == extension) names.insert(entry.path().stem().string());
  }
  return names;
}

// Where two texts part, for the message.
std::string first_difference(const std::string& a, const std::string& b) {
  std::size_t at = 0;
  while (at < a.size() && at < b.size() && a[at] == b[at]) ++at;
  const std::size_t begin = at < 60 ? 0 : at - 60;
  return "expected ..." + a.substr(begin, 120) + "... got ..." + b.substr(begin, 120);
}

}  // namespace

TEST_CASE("every scenario has its golden answer, and every answer its scenario") {
  const std::set<std::string> scenarios = stems("scenarios", ".yaml"), golden = stems("tests/golden", ".json");
  for (const std::string& name : scenarios) CHECK_MESSAGE(golden.contains(name), name << " lacks an answer");
  for (const std::string& name : golden) CHECK_MESSAGE(scenarios.contains(name), name << " lacks a scenario");
}

TEST_CASE("scenarios are answered as before") {
  for (const std::string& name : stems("tests/golden", ".json")) {
    CAPTURE(name);
    const std::string expected = read_file(FORETRAIN_SOURCE_DIR "/tests/golden/" + name + ".json");
    const Outcome o = run_program("run scenarios/" + name + ".yaml --json -");
    CHECK(o.status == 0);
    CHECK_MESSAGE(o.out == expected, first_difference(expected, o.out));
  }
}

TEST_CASE("questions of what to rent are answered as before") {
  for (const std::string& name : stems("scenarios/rent", ".yaml")) {
    CAPTURE(name);
    const std::string expected = read_file(FORETRAIN_SOURCE_DIR "/tests/golden/rent/" + name + ".json");
    const Outcome o = run_program("rent scenarios/rent/" + name + ".yaml --json -");
    CHECK(o.status == 0);
    CHECK_MESSAGE(o.out == expected, first_difference(expected, o.out));
  }
}
