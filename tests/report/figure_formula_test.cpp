#include "sim/report/figure_formula.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "sim/report/case_figures.h"
#include "tests/support/cases.h"
#include "tests/support/plan_kinds.h"

using namespace foretrain;
using namespace foretrain::report;
using namespace foretrain::testing;

namespace {

// Works a formula of symbols out, where things beside each other are multiplied: "B s / (T n)", "1e9 / (v 3600) m / p".
class Symbols {
 public:
  Symbols(std::string text, std::map<std::string, double> values)
      : text_(std::move(text)), values_(std::move(values)) {}

  // nullopt: it has words in it.
  std::optional<double> result() {
    const double value = sum();
    return known_ && at_ == text_.size() ? std::optional(value) : std::nullopt;
  }

 private:
  char next() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  double sum() {
    double value = product();
    while (next() == '+') {
      ++at_;
      value += product();
    }
    return value;
  }
  double product() {
    double value = factor();
    for (char c = next(); known_ && c != '\0' && c != ')' && c != '+'; c = next()) {
      const bool divides = c == '/';
      at_ += divides ? 1 : 0;
      value = divides ? value / factor() : value * factor();
    }
    return value;
  }
  double factor() {
    if (next() == '(') {
      ++at_;
      const double value = sum();
      known_ = known_ && next() == ')';
      ++at_;
      return value;
    }
    const std::size_t begin = at_;
    while (at_ < text_.size() && std::isalnum(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
    const std::string word = text_.substr(begin, at_ - begin);
    if (const auto value = values_.find(word); value != values_.end()) return value->second;
    known_ = known_ && !word.empty() && std::isdigit(static_cast<unsigned char>(word[0])) != 0;
    return known_ ? std::stod(word) : 0;
  }

  std::string text_;
  std::map<std::string, double> values_;
  std::size_t at_ = 0;
  bool known_ = true;
};

std::optional<double> worked_out(const FigureFormula& f) {
  std::map<std::string, double> values;
  for (const FigureFormula::Input& input : f.inputs) values[input.symbol] = input.value;
  const std::string text = f.formula.english();
  return Symbols(text.substr(0, text.find(':')), values).result();
}

// What was asked for, and what is not of the case.
bool is_given(const std::string& figure) {
  constexpr std::array given = {"model.", "train.", "cluster.", "plan.", "nearest_measured."};
  return std::any_of(given.begin(), given.end(), [&](const char* part) { return figure.starts_with(part); });
}

}  // namespace

TEST_CASE("formulas give the figures that are printed, and every figure has one") {
  std::set<std::string> closed;
  for (const PlanKind& kind : plan_kinds()) {
    CAPTURE(kind.name);
    Case subject = case_of_kind(kind);
    subject.price = Case::Price{12000, "CNY", Case::Price::Per::month};
    subject.train.tokens = 1e9;
    const CaseReport report = simulate_plainly(subject);
    const Figures printed = case_figures(report);
    std::set<std::string> explained;
    for (const FigureFormula& f : figure_formulas(report)) {
      CAPTURE(f.figure);
      CHECK(explained.insert(f.figure).second);
      CHECK_FALSE(f.inputs.empty());
      if (const auto value = worked_out(f)) {
        closed.insert(f.figure);
        CHECK(*value == doctest::Approx(f.value).epsilon(1e-8));
      }
      if (f.figure == "model_flops") continue;  // an input of others; has no place of its own in JSON
      const auto at = printed.find(f.figure);
      REQUIRE(at != printed.end());
      CHECK(f.value == doctest::Approx(at->second).epsilon(1e-8));
    }
    // Answers to yes or no, and sums that only claims speak of, are no printed figures.
    const std::set<std::string> others = {"fits",
                                          "memory.host_fits",
                                          "memory.stage",
                                          "gpus",
                                          "memory.states_bytes",
                                          "memory.batch_bytes",
                                          "data_parallel_bytes"};
    for (const auto& [figure, value] : printed) {
      if (is_given(figure) || others.contains(figure)) continue;
      CHECK_MESSAGE(explained.contains(figure), figure);
    }
  }
  for (const char* figure : {"tokens_per_s", "mfu", "hfu", "model_flops", "bubble_fraction", "micro_batches",
                             "total_ranks", "step_time_ps", "memory.parts.optimizer", "cost.hours", "cost.amount"}) {
    CHECK_MESSAGE(closed.contains(figure), figure);
  }
}

TEST_CASE("elasticities have formulas where they were asked for") {
  const Case subject = case_of(kSmallGpt + kA100Node + train(32) + "plan: {zero: 1, micro_batch: 2}");
  const CaseReport report = simulate_case(subject, environment(), {.with_advice = false});
  REQUIRE(report.elasticity);
  double sum = 0;
  for (const FigureFormula& f : figure_formulas(report)) {
    if (f.figure.starts_with("elasticity.")) sum += f.value;
  }
  CHECK(sum == doctest::Approx(1.0));
}

TEST_CASE("a formula's inputs are the figures it names") {
  const CaseReport report =
      simulate_plainly(case_of(kSmallGpt + kA100Node + train(32) + "plan: {zero: 1, micro_batch: 2}"));
  double flops = 0, used = 0;
  for (const FigureFormula& f : figure_formulas(report)) {
    if (f.figure == "model_flops") flops = f.value;
    if (f.figure == "mfu") used = f.inputs.front().value;
    if (f.figure == "memory.parts.optimizer") CHECK(f.inputs.back().value == 8);  // ranks that share it
  }
  CHECK(flops > 0);
  CHECK(flops == doctest::Approx(used).epsilon(1e-12));
}
