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

// Where every figure comes from that JSON has for a case, but for what was asked (model, train, cluster, plan), each
// worked out. Figures that only a simulation knows say what it was made of.
std::vector<FigureFormula> figure_formulas(const CaseReport& report);

// Those of `memory`.
std::vector<FigureFormula> memory_formulas(const CaseReport& report);

}  // namespace foretrain::report
