#pragma once

#include <string>
#include <vector>

#include "sim/report/terminal.h"

namespace foretrain::report {

// A case's name with its number in front, by which narrow tables name it; the name alone if it is the only one.
std::string numbered(std::size_t index, const std::vector<std::string>& names);

// Figures of several cases side by side: cases in columns, with bars; if that does not fit the terminal, the columns
// are headed by the cases' numbers; if that does not either, cases are rows and figures columns.
struct ByCase {
  struct Figure {
    std::string name;
    std::string short_name;  // heads a column
    struct Cell {
      std::string text;
      double share = -1;  // of a bar; negative: none
      Style style = Style::plain;
    };
    std::vector<Cell> cells;  // one a case
  };
  std::string title;
  std::vector<std::string> cases;
  std::vector<Figure> figures;

  std::string text(const Terminal& terminal) const;  // empty without figures
};

}  // namespace foretrain::report
