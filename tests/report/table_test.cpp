#include "sim/report/table.h"

#include <doctest/doctest.h>

#include "tests/report/support.h"

using namespace foretrain;
using namespace foretrain::report;
using foretrain::report::testing::widest;

namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

RunReport many(int cases) {
  std::vector<CaseReport> all;
  for (int i = 0; i < cases; ++i) all.push_back(report::testing::hand_made("case number " + std::to_string(i)));
  return report::testing::run_of(std::move(all));
}

}  // namespace

TEST_CASE("two cases: verdict first, all figures, within the width") {
  for (int width : {60, 80, 100, 160}) {
    const std::string text = run_table(many(2), {.colour = false, .width = width});
    CHECK(widest(text) <= width);
    CHECK(text.find("the first wins") < text.find("step time"));
    for (const char* figure : {"1.000 s", "2,048", "256", "41.0 %", "50.0 %", "30.0 / 40.0", "yes", "70.0 %", "20.0 %",
                               "nvidia-smi", "GiB", "tp 1, pp 2", "sequence length is the default"}) {
      CHECK_MESSAGE(has(text, figure), figure << " at width " << width);
    }
    CHECK_FALSE(has(text, "\x1b"));
  }
}

TEST_CASE("two cases are short, thirty still within the width") {
  const std::string two = run_table(many(2), {.width = 100});
  CHECK(std::count(two.begin(), two.end(), '\n') < 50);
  const std::string thirty = run_table(many(30), {.width = 100});
  CHECK(widest(thirty) <= 100);
  CHECK(has(thirty, "case number 29"));
  // What all share is said once.
  CHECK(thirty.find("sequence length is") == thirty.rfind("sequence length is"));
  CHECK(thirty.find("tp 1, pp 2") == thirty.rfind("tp 1, pp 2"));
}

TEST_CASE("a case that does not fit") {
  const std::string text =
      run_table(report::testing::run_of({report::testing::hand_made("small"), report::testing::too_large("large")}),
                {.width = 100});
  CHECK(has(text, "large does not fit: 5.0 GiB are missing on every GPU on pipeline stage 0"));
  CHECK(has(text, "fits with micro_batch: 2: 20.0 GiB, 1.250 s a step"));
  CHECK(has(text, "fits with zero: 3: 15.0 GiB\n"));
  CHECK(has(text, "NO"));
}

TEST_CASE("warnings of some cases name them") {
  RunReport run = many(3);
  run.cases[1].warnings = {message("close to the limit")};
  const std::string text = run_table(run, {.width = 100});
  CHECK(has(text, "close to the limit (case number 1)"));
  CHECK_FALSE(has(text, "odd but legal"));  // said when the scenario was read
}

TEST_CASE("money appears where there is some") {
  RunReport run = many(2);
  CHECK_FALSE(has(run_table(run, {.width = 140}), "cost"));
  run.cases[0].subject.price = Case::Price{1, "CNY", Case::Price::Per::hour};
  run.cases[0].hours = 12.5;
  run.cases[0].cost = 1234.5;
  run.cases[0].cost_per_billion_tokens = 99;
  const std::string text = run_table(run, {.width = 140});
  CHECK(has(text, "hours"));
  CHECK((has(text, "1,234 CNY") || has(text, "1,235 CNY")));
}

TEST_CASE("colour marks without changing the text") {
  const RunReport run = many(2);
  std::string coloured = run_table(run, {.colour = true, .width = 100});
  CHECK(has(coloured, "\x1b["));
  for (std::size_t at; (at = coloured.find("\x1b[")) != std::string::npos;) {
    coloured.erase(at, coloured.find('m', at) - at + 1);
  }
  // Padding may stand inside or outside of the marks; words and order are the same.
  std::istringstream left(coloured), right(run_table(run, {.colour = false, .width = 100}));
  for (std::string a, b; left >> a;) {
    right >> b;
    CHECK(a == b);
  }
}

TEST_CASE("hostile names") {
  const std::string text = run_table(report::testing::run_of({report::testing::hand_made("\x1b[2J\nboo"),
                                                              report::testing::hand_made(std::string(5000, 'x'))}),
                                     {.width = 80});
  CHECK_FALSE(has(text, "\x1b"));
}

TEST_CASE("validation table") {
  Validation v;
  v.sources.push_back({"runs.yaml", "Runs", "", {}, 1});
  for (int i = 0; i < 60; ++i) {
    Comparison c;
    c.name = "run-" + std::to_string(i);
    c.model = "m";
    c.measured_step_time_s = 10.0 + i;
    c.predicted_step_time_s = 10.0 + i + (i == 37 ? 40 : 1);
    c.predicted_oom = false;
    v.cases.push_back(c);
  }
  v.refused = {{"no", 0, "plan.offload", false}};
  v.summary = accuracy(v.cases);
  v.sources[0].accuracy = v.summary;
  const std::string some = validation_table(v, {.width = 100});
  CHECK(widest(some) <= 100);
  CHECK(has(some, "60 cases compared, 1 refused"));
  CHECK(has(some, "run-37 "));
  CHECK(has(some, "1 x plan.offload"));
  CHECK_FALSE(has(some, "run-59 "));
  CHECK(has(validation_table(v, {.width = 100}, true), "run-59 "));
}
