#include "sim/report/by_case.h"

#include <fmt/format.h>

#include <algorithm>

namespace foretrain::report {
namespace {

constexpr int kCaseBar = 12;
constexpr int kLongestName = 24;  // of a case that heads a column

TextTable cases_in_columns(const ByCase& by_case, bool by_number) {
  std::vector<std::string> header = {by_case.title};
  for (std::size_t c = 0; c < by_case.cases.size(); ++c) {
    header.push_back(by_number ? std::to_string(c + 1) : cut(printable(by_case.cases[c]), kLongestName));
  }
  const auto is_drawn = [](const ByCase::Figure::Cell& cell) { return cell.share >= 0; };
  const bool bars = !by_number && std::any_of(by_case.figures.begin(), by_case.figures.end(), [&](const auto& figure) {
    return std::any_of(figure.cells.begin(), figure.cells.end(), is_drawn);
  });
  TextTable table(header);
  for (const ByCase::Figure& figure : by_case.figures) {
    std::vector<TextTable::Cell> row = {{figure.name, Style::plain}};
    for (const ByCase::Figure::Cell& cell : figure.cells) {
      std::string text = cell.text;
      if (bars) text.append(" ").append(bar(std::max(cell.share, 0.0), kCaseBar));
      row.push_back({std::move(text), cell.style});
    }
    table.add(std::move(row));
  }
  return table;
}

TextTable cases_in_rows(const ByCase& by_case, const Words& words) {
  std::vector<std::string> header = {words("case")};
  for (const ByCase::Figure& figure : by_case.figures) header.push_back(figure.short_name);
  TextTable table(header);
  for (std::size_t c = 0; c < by_case.cases.size(); ++c) {
    std::vector<TextTable::Cell> row = {{numbered(c, by_case.cases), Style::plain}};
    for (const ByCase::Figure& figure : by_case.figures) row.push_back({figure.cells[c].text, figure.cells[c].style});
    table.add(std::move(row));
  }
  return table;
}

}  // namespace

std::string numbered(std::size_t index, const std::vector<std::string>& names) {
  if (names.size() == 1) return names[index];
  return fmt::format("{:{}}  {}", index + 1, names.size() < 10 ? 1 : 2, names[index]);
}

std::string ByCase::text(const Terminal& terminal) const {
  if (figures.empty() || cases.empty()) return "";
  for (bool by_number : {false, true}) {
    const TextTable columns = cases_in_columns(*this, by_number);
    if (columns.width() <= terminal.width) return columns.text(terminal);
  }
  return styled(title, Style::faint, terminal) + "\n" + cases_in_rows(*this, terminal.words).text(terminal);
}

}  // namespace foretrain::report
