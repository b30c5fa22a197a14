#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/report/words.h"

namespace foretrain::report {

// Where text is shown, and in which language.
struct Terminal {
  bool colour = false;
  int width = 100;  // columns
  Words words{};
};

enum class Style { plain, bold, good, bad, faint };
std::string styled(std::string_view text, Style style, const Terminal& terminal);

// Columns that UTF-8 text takes: wide East Asian characters count two, combining marks none.
int display_width(std::string_view text);
// The text with control characters and broken UTF-8 replaced, so that a name cannot drive the terminal.
std::string printable(std::string_view text);
// The text cut to so many columns, with an ellipsis if anything is missing.
std::string cut(std::string_view text, int width);
// The text broken at spaces and beside wide characters, which are written without spaces; lines after the first start
// with `indent` spaces. Ends without a newline.
std::string wrapped(std::string_view text, int width, int indent);

// A bar of so many columns, in eighths of a column; share is 0 to 1.
std::string bar(double share, int width);

// Cells in columns: the first column to the left, the others to the right. A table wider than the terminal gets its
// first column cut, and if that is not enough it is continued below with the first column repeated.
class TextTable {
 public:
  struct Cell {
    std::string text;
    Style style = Style::plain;
  };
  explicit TextTable(std::vector<std::string> header) : header_(std::move(header)) {}
  void add(std::vector<Cell> row) { rows_.push_back(std::move(row)); }
  void align_left(std::size_t column) { left_.push_back(column); }
  std::string text(const Terminal& terminal) const;
  // Columns it takes when nothing is cut.
  int width() const;

 private:
  std::vector<int> widths() const;
  std::string block(const std::vector<int>& widths, std::size_t first, std::size_t last,
                    const Terminal& terminal) const;
  bool is_left(std::size_t column) const;

  std::vector<std::string> header_;
  std::vector<std::vector<Cell>> rows_;
  std::vector<std::size_t> left_ = {0};
};

}  // namespace foretrain::report
