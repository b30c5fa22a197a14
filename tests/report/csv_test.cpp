#include "sim/report/csv.h"

#include <doctest/doctest.h>

#include <vector>

#include "tests/report/support.h"

using namespace foretrain;
using namespace foretrain::report;

namespace {

// An independent reader of RFC 4180.
std::vector<std::vector<std::string>> read_csv(const std::string& text) {
  std::vector<std::vector<std::string>> rows = {{""}};
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted && c == '"' && i + 1 < text.size() && text[i + 1] == '"') {
      rows.back().back() += '"';
      ++i;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      rows.back().emplace_back();
    } else if (c == '\n' && !quoted) {
      rows.push_back({""});
    } else {
      rows.back().back() += c;
    }
  }
  rows.pop_back();
  return rows;
}

std::string cell(const std::vector<std::vector<std::string>>& rows, std::size_t row, const std::string& name) {
  for (std::size_t c = 0; c < rows[0].size(); ++c) {
    if (rows[0][c] == name) return rows[row][c];
  }
  return "no such column";
}

}  // namespace

TEST_CASE("fields are quoted only where they must be") {
  CHECK(csv_field("plain text") == "plain text");
  CHECK(csv_field("") == "");
  CHECK(csv_field("a,b") == "\"a,b\"");
  CHECK(csv_field("say \"hi\"") == "\"say \"\"hi\"\"\"");
  CHECK(csv_field("two\nlines") == "\"two\nlines\"");
  CHECK(csv_field("cr\r") == "\"cr\r\"");
}

TEST_CASE("one row a case, as wide as the header") {
  CaseReport priced = report::testing::hand_made("8 x A100, \"40G\"\nlarge");
  priced.subject.price = Case::Price{1, "USD", Case::Price::Per::hour};
  priced.cost = 2.5;
  const auto rows = read_csv(run_csv(report::testing::run_of({priced, report::testing::too_large("b")})));
  REQUIRE(rows.size() == 3);
  for (const auto& row : rows) CHECK(row.size() == rows[0].size());
  CHECK(cell(rows, 1, "name") == "8 x A100, \"40G\"\nlarge");
  CHECK(cell(rows, 1, "step_time_s") == "1.000000000001");
  CHECK(cell(rows, 1, "bubble_s") == "0.200000000001");
  CHECK(cell(rows, 1, "fits") == "true");
  CHECK(cell(rows, 1, "cost") == "2.5");
  CHECK(cell(rows, 2, "cost") == "");
  CHECK(cell(rows, 2, "fits") == "false");
  CHECK(std::stod(cell(rows, 2, "missing_bytes")) == doctest::Approx(5 * kGiB));
  CHECK(cell(rows, 1, "gpus") == "8");
}

TEST_CASE("refused cases keep their row and leave figures empty") {
  Validation v;
  v.sources.push_back({"runs.yaml", "", "", {}, 1});
  Comparison c;
  c.name = "one";
  c.measured_step_time_s = 2.0;
  c.predicted_step_time_s = 2.5;
  c.predicted_oom = false;
  v.cases = {c};
  v.refused = {{"two", 0, "plan.offload, plan.cp", false}};
  const auto rows = read_csv(validation_csv(v));
  REQUIRE(rows.size() == 3);
  for (const auto& row : rows) CHECK(row.size() == rows[0].size());
  CHECK(cell(rows, 1, "error") == "0.25");
  CHECK(cell(rows, 1, "measured_oom") == "false");
  CHECK(cell(rows, 2, "refused") == "plan.offload, plan.cp");
  CHECK(cell(rows, 2, "measured_oom") == "");
  CHECK(cell(rows, 2, "error") == "");
}
