#pragma once

#include <span>
#include <string>
#include <vector>

#include "sim/analysis/explain.h"
#include "sim/report/figure_formula.h"
#include "sim/report/terminal.h"

namespace foretrain::report {

// Where the steps of cases go and what would help, for people: one section a case.
std::string explain_table(const std::string& title, std::span<const Explanation> cases, const Terminal& terminal);
// And for programs. `gain` is the fraction of the step time that a change saves; negative where it costs time.
std::string explain_json(const std::string& title, std::span<const Explanation> cases);

// Figures with their formulas, inputs and results.
struct ExplainedFigures {
  std::string name;  // of the case
  std::vector<FigureFormula> figures;
};
std::string figures_table(std::span<const ExplainedFigures> cases, const Terminal& terminal);
std::string figures_json(const std::string& title, std::span<const ExplainedFigures> cases);

}  // namespace foretrain::report
