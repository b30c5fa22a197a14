#include "sim/calibration/markdown_table.h"

#include <algorithm>

namespace foretrain {
namespace {

// Text for a table's cell.
std::string escaped(const std::string& text) {
  std::string result;
  for (char c : text) {
    if (c == '|') result += '\\';
    result += c == '\n' ? ' ' : c;
  }
  return result;
}

std::string table_row(const std::vector<std::string>& cells) {
  std::string line = "|";
  for (const std::string& text : cells) line += " " + escaped(text) + " |";
  return line + "\n";
}

// Whether a column holds figures, which are set to the right.
bool is_number(const std::vector<std::vector<std::string>>& rows, std::size_t column) {
  return std::all_of(rows.begin(), rows.end(), [&](const auto& row) {
    const std::string& text = row[column];
    return text == "-" || (!text.empty() && text.find_first_not_of("0123456789+-.,% sof") == std::string::npos);
  });
}

}  // namespace

std::string markdown_table(const std::vector<std::string>& header, const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::string> rule;
  for (std::size_t i = 0; i < header.size(); ++i) rule.push_back(is_number(rows, i) ? "---:" : "---");
  std::string text = table_row(header) + table_row(rule);
  for (const auto& row : rows) text += table_row(row);
  return text + "\n";
}

}  // namespace foretrain
