#include "sim/claims/check.h"

#include <doctest/doctest.h>

using namespace foretrain;

namespace {

std::optional<Check> read(const std::string& yaml, Diagnostics& diagnostics) {
  const auto node = config::parse_yaml(yaml, "test", diagnostics);
  REQUIRE(node);
  return read_check(*node, diagnostics);
}

Check check_of(const std::string& yaml) {
  Diagnostics diagnostics;
  const auto check = read(yaml, diagnostics);
  CAPTURE(yaml);
  REQUIRE(check);
  return *check;
}

// The errors of a check that is wrong, each on a line.
std::string errors_of(const std::string& yaml) {
  Diagnostics diagnostics;
  CHECK_FALSE(read(yaml, diagnostics));
  std::string text;
  for (const Diagnostic& d : diagnostics.all()) text += d.message.english() + "\n";
  return text;
}

const Figures kSlow = {
    {"step_time_s", 3.0},           {"memory.gpu_peak_bytes", 90e9},  {"memory.gpu_capacity_bytes", 80e9},
    {"memory.parts.weights", 14e9}, {"memory.parts.gradients", 14e9}, {"model.parameters", 7e9}};
const Figures kFast = {
    {"step_time_s", 2.0}, {"memory.gpu_peak_bytes", 40e9}, {"memory.gpu_capacity_bytes", 80e9}, {"mfu", 0.4}};

CheckOutcome outcome_of(const std::string& yaml, const std::vector<const Figures*>& figures, double tolerance = 0) {
  Diagnostics diagnostics;
  const auto outcome = evaluate(check_of(yaml), figures, tolerance, diagnostics);
  CAPTURE(yaml);
  REQUIRE(outcome);
  CHECK(diagnostics.all().empty());
  return *outcome;
}

bool holds(const std::string& yaml, const std::vector<const Figures*>& figures, double tolerance = 0) {
  return outcome_of(yaml, figures, tolerance).holds;
}

}  // namespace

TEST_CASE("ratio, delta and value are what they say, bounds included") {
  CHECK(outcome_of("{ratio: step_time_s, of: [a, b], range: [1.5, 2]}", {&kSlow, &kFast}).figure == 1.5);
  CHECK(holds("{ratio: step_time_s, of: [a, b], range: [1.5, 2]}", {&kSlow, &kFast}));
  CHECK_FALSE(holds("{ratio: step_time_s, of: [a, b], range: [1.51, 2]}", {&kSlow, &kFast}));
  CHECK_FALSE(holds("{ratio: step_time_s, of: [a, b], range: [1.5, 2]}", {&kFast, &kSlow}));
  CHECK(outcome_of("{delta: step_time_s, of: [a, b], at_least: 1}", {&kSlow, &kFast}).figure == 1.0);
  CHECK(holds("{delta: step_time_s, of: [a, b], at_most: -1}", {&kFast, &kSlow}));
  CHECK(holds("{value: step_time_s, of: a, range: [3, 3]}", {&kSlow}));
  CHECK(holds("{value: step_time_s, of: a, at_least: 2500ms}", {&kSlow}));
  CHECK_FALSE(holds("{value: step_time_s, of: a, at_most: 2.9}", {&kSlow}));
}

TEST_CASE("bytes take units, and none means bytes") {
  CHECK(holds("{value: memory.gpu_peak_bytes, of: a, range: [89GB, 91GB]}", {&kSlow}));
  CHECK_FALSE(holds("{value: memory.gpu_peak_bytes, of: a, range: [89GiB, 91GiB]}", {&kSlow}));
  CHECK_FALSE(holds("{value: memory.gpu_peak_bytes, of: a, range: [89, 91]}", {&kSlow}));
  CHECK(unit_of_metric("tokens_per_s") == config::Unit::count);
  CHECK(unit_of_metric("breakdown_s.tp_comm") == config::Unit::seconds);
}

TEST_CASE("bytes per seconds are a rate") {
  CHECK(holds("{value: memory.gpu_peak_bytes, per: step_time_s, of: a, range: [30GB/s, 30GB/s]}", {&kSlow}));
  CHECK(holds("{value: memory.gpu_peak_bytes, per: step_time_s, of: a, at_least: 29}", {&kSlow}));
}

TEST_CASE("sums, and figures per other figures") {
  const std::string states = "memory.parts.weights + memory.parts.gradients";
  CHECK(outcome_of("{value: " + states + ", of: a, range: [28GB, 28GB]}", {&kSlow}).holds);
  CHECK(outcome_of("{value: " + states + ", per: model.parameters, of: a, range: [4, 4]}", {&kSlow}).holds);
}

TEST_CASE("a tolerance widens both ends by a share of themselves") {
  const std::string check = "{ratio: step_time_s, of: [a, b], range: [1.6, 2]}";
  CHECK_FALSE(holds(check, {&kSlow, &kFast}, 0.06));
  CHECK(holds(check, {&kSlow, &kFast}, 0.07));
  CHECK(holds("{delta: step_time_s, of: [a, b], range: [-0.9, -0.5]}", {&kFast, &kSlow}, 0.12));
}

TEST_CASE("orders are strict") {
  CHECK(holds("{ascending: step_time_s, of: [a, b]}", {&kFast, &kSlow}));
  CHECK_FALSE(holds("{ascending: step_time_s, of: [a, b]}", {&kFast, &kFast}));
  CHECK(holds("{descending: step_time_s, of: [a, b]}", {&kSlow, &kFast}));
  CHECK_FALSE(holds("{descending: step_time_s, of: [a, b, c]}", {&kSlow, &kFast, &kSlow}));
}

TEST_CASE("fits and oom speak of all their cases") {
  CHECK(holds("{fits: b}", {&kFast}));
  CHECK_FALSE(holds("{fits: [a, b]}", {&kSlow, &kFast}));
  CHECK_FALSE(holds("{oom: [a, b]}", {&kSlow, &kFast}));
  CHECK(holds("{oom: a}", {&kSlow}));
  CHECK(outcome_of("{oom: a}", {&kSlow}).of_cases == std::vector<double>{90.0 / 80.0});
}

TEST_CASE("a figure that a case does not have is an error with its place and a suggestion") {
  Diagnostics diagnostics;
  const Check check = check_of("{ratio: step_times, of: [a, b], at_least: 1}");
  CHECK_FALSE(evaluate(check, {&kSlow, &kFast}, 0, diagnostics));
  REQUIRE(diagnostics.has_errors());
  CHECK(to_string(diagnostics.all()[0])
            .find("test:1:1: error: case 'a' has no figure 'step_times'; did you mean 'step_time_s'") == 0);
  CHECK_FALSE(evaluate(check_of("{value: mfu, of: a, at_least: 1}"), {&kSlow}, 0, diagnostics));
}

TEST_CASE("checks that are wrong say what would be right") {
  CHECK(errors_of("{of: [a, b]}").find("one of value, ratio") != std::string::npos);
  CHECK(errors_of("{ratio: x, delta: x, of: [a, b], range: [1, 2]}").find("write two checks") != std::string::npos);
  CHECK(errors_of("{ratio: x, of: [a], range: [1, 2]}").find("two cases") != std::string::npos);
  CHECK(errors_of("{ratio: x, of: [a, b, c], range: [1, 2]}").find("two cases") != std::string::npos);
  CHECK(errors_of("{value: x, of: [a, b], range: [1, 2]}").find("one case") != std::string::npos);
  CHECK(errors_of("{ratio: x, of: [a, b]}").find("at_least") != std::string::npos);
  CHECK(errors_of("{ratio: x, of: [a, b], range: [2, 1]}").find("[LOW, HIGH]") != std::string::npos);
  CHECK(errors_of("{ratio: x, of: [a, b], range: [1, 2, 3]}").find("[LOW, HIGH]") != std::string::npos);
  CHECK(errors_of("{ratio: x, of: [a, b], range: [1, 2], at_most: 3}").find("one of range") != std::string::npos);
  CHECK(errors_of("{ascending: x, of: [a, b], range: [1, 2]}").find("says nothing") != std::string::npos);
  CHECK(errors_of("{fits: a, range: [1, 2]}").find("says nothing") != std::string::npos);
  CHECK(errors_of("{ratio: x, of: [a, b], range: [1, 2], whem: y}").find("when") != std::string::npos);
  CHECK(errors_of("{ratio: x, of: [a, b], range: [1GB, 2GB]}") != "");
  CHECK(errors_of("[1]") != "");
}
