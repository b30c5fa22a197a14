#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/analysis/case_report.h"
#include "sim/base/message.h"

namespace foretrain::report {

// Where a printed figure comes from: its formula, what was put in, and the result.
struct FigureFormula {
  struct Input {
    std::string symbol;
    double value = 0;
    std::string unit;
    Message meaning;
  };
  std::string figure;  // as in JSON: "mfu", "memory.parts.weights"
  Message formula;     // a name where it is nothing but symbols
  std::vector<Input> inputs;
  double value = 0;  // what the formula gives for the inputs
  std::string unit;
};

// The figures of the case that have a formula, in the order of JSON, each worked out.
std::vector<FigureFormula> figure_formulas(const CaseReport& report);

}  // namespace foretrain::report
