#include "sim/report/terminal.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <utility>

namespace foretrain::report {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

struct Decoded {
  char32_t code = 0;
  std::size_t bytes = 1;
  bool valid = false;
};

// The character at the start of non-empty text (RFC 3629).
Decoded decode(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return {first, 1, true};
  const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < length) return {};
  char32_t code = first & (0x7F >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {};
    code = (code << 6) | (byte(i) & 0x3F);
  }
  constexpr std::array<char32_t, 5> kLeast = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  return {code, length, code >= kLeast[length] && code <= 0x10FFFF && !surrogate};
}

bool in_any(char32_t code, auto& ranges) {
  return std::any_of(std::begin(ranges), std::end(ranges),
                     [&](const auto& range) { return code >= range.first && code <= range.second; });
}

// Control, direction and zero-width characters have no place in a line of text.
bool is_control(char32_t code) {
  static constexpr std::array<std::pair<char32_t, char32_t>, 5> kControls = {
      {{0x00, 0x1F}, {0x7F, 0x9F}, {0x200B, 0x200F}, {0x2028, 0x202E}, {0x2066, 0x2069}}};
  return in_any(code, kControls);
}

// The common part of Unicode's East Asian Width (W and F) and of combining marks.
int width_of(char32_t code) {
  static constexpr std::array<std::pair<char32_t, char32_t>, 3> kCombining = {
      {{0x0300, 0x036F}, {0x20D0, 0x20FF}, {0xFE00, 0xFE0F}}};
  static constexpr std::array<std::pair<char32_t, char32_t>, 9> kWide = {{{0x1100, 0x115F},
                                                                          {0x2E80, 0x303E},
                                                                          {0x3041, 0xA4CF},
                                                                          {0xAC00, 0xD7A3},
                                                                          {0xF900, 0xFAFF},
                                                                          {0xFE30, 0xFE6F},
                                                                          {0xFF00, 0xFF60},
                                                                          {0x1F300, 0x1FAFF},
                                                                          {0x20000, 0x3FFFD}}};
  if (code < 0x300) return 1;
  return in_any(code, kCombining) ? 0 : in_any(code, kWide) ? 2 : 1;
}

std::string padded(const std::string& text, int width, bool left) {
  const std::string space(static_cast<std::size_t>(std::max(0, width - display_width(text))), ' ');
  std::string result;
  result.append(left ? text : space).append(left ? space : text);
  return result;
}

void strip_right(std::string& line) {
  while (!line.empty() && line.back() == ' ') line.pop_back();
}

// Marks that do not begin a line: ，。；：！？、）】》” and their ASCII kin.
bool clings_to_the_left(char32_t code) {
  static constexpr std::u32string_view kMarks = U"，。；：！？、）】》」』”’％,.;:!?)]}%";
  return kMarks.find(code) != kMarks.npos;
}

// The start of the text up to where a line may end: a space, or either side of a wide character unless a mark follows.
std::string_view unbroken(std::string_view text) {
  std::size_t size = 0;
  bool before_is_wide = false;
  while (size < text.size() && text[size] != ' ') {
    const Decoded c = decode(text.substr(size));
    const bool wide = c.valid && width_of(c.code) == 2;
    if (size > 0 && (wide || before_is_wide) && !clings_to_the_left(c.code)) break;
    before_is_wide = wide;
    size += c.bytes;
  }
  return text.substr(0, size);
}

constexpr int kGap = 2;

}  // namespace

std::string styled(std::string_view text, Style style, const Terminal& terminal) {
  if (!terminal.colour || style == Style::plain || text.empty()) return std::string(text);
  constexpr std::array<std::string_view, 5> kCodes = {"", "1", "1;32", "1;31", "2"};
  return fmt::format("\x1b[{}m{}\x1b[0m", kCodes[static_cast<std::size_t>(style)], text);
}

int display_width(std::string_view text) {
  int width = 0;
  while (!text.empty()) {
    const Decoded c = decode(text);
    width += c.valid ? width_of(c.code) : 1;
    text.remove_prefix(c.bytes);
  }
  return width;
}

std::string printable(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const Decoded c = decode(text);
    if (!c.valid || is_control(c.code)) {
      result += c.code == '\n' || c.code == '\t' ? " " : kReplacement;
    } else {
      result += text.substr(0, c.bytes);
    }
    text.remove_prefix(c.bytes);
  }
  return result;
}

std::string cut(std::string_view text, int width) {
  if (display_width(text) <= width) return std::string(text);
  std::string result;
  int used = 1;  // the ellipsis
  while (!text.empty()) {
    const Decoded c = decode(text);
    used += c.valid ? width_of(c.code) : 1;
    if (used > width) break;
    result += text.substr(0, c.bytes);
    text.remove_prefix(c.bytes);
  }
  return result + "…";
}

std::string wrapped(std::string_view text, int width, int indent) {
  const std::string clean = printable(text);
  const std::string margin(static_cast<std::size_t>(indent), ' ');
  std::string result(std::min(clean.find_first_not_of(' '), clean.size()), ' ');
  int column = static_cast<int>(result.size());
  bool line_is_empty = true, after_space = false;
  std::string_view rest = std::string_view(clean).substr(result.size());
  while (!rest.empty()) {
    if (rest.front() == ' ') {
      after_space = true;
      rest.remove_prefix(1);
      continue;
    }
    const std::string_view piece = unbroken(rest);
    const int space = after_space ? 1 : 0;
    if (!line_is_empty && column + space + display_width(piece) > width) {
      result.append("\n").append(margin);
      column = indent;
    } else if (!line_is_empty && after_space) {
      result += ' ';
      ++column;
    }
    result += piece;
    column += display_width(piece);
    line_is_empty = after_space = false;
    rest.remove_prefix(piece.size());
  }
  return result;
}

std::string bar(double share, int width) {
  constexpr std::array<std::string_view, 8> kEighths = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const double clamped = std::isfinite(share) ? std::clamp(share, 0.0, 1.0) : 0.0;
  const auto eighths = static_cast<std::size_t>(std::lround(clamped * width * 8));
  std::string result;
  for (std::size_t i = 0; i < eighths / 8; ++i) result += "█";
  result += kEighths[eighths % 8];
  return padded(result, width, true);
}

bool TextTable::is_left(std::size_t column) const {
  return std::find(left_.begin(), left_.end(), column) != left_.end();
}

std::vector<int> TextTable::widths() const {
  std::vector<int> widths;
  for (const std::string& title : header_) widths.push_back(display_width(printable(title)));
  for (const auto& row : rows_) {
    for (std::size_t c = 0; c < row.size() && c < widths.size(); ++c) {
      widths[c] = std::max(widths[c], display_width(printable(row[c].text)));
    }
  }
  return widths;
}

int TextTable::width() const {
  int sum = -kGap;
  for (int w : widths()) sum += w + kGap;
  return sum;
}

std::string TextTable::block(const std::vector<int>& widths, std::size_t first, std::size_t last,
                             const Terminal& terminal) const {
  std::string text;
  const auto add_line = [&](auto cell_of) {
    std::string line;
    const auto add_cell = [&](std::size_t column) {
      const Cell cell = cell_of(column);
      const std::string shown = padded(cut(printable(cell.text), widths[column]), widths[column], is_left(column));
      if (column > 0) line.append(kGap, ' ');
      line += styled(shown, cell.style, terminal);
    };
    add_cell(0);
    for (std::size_t column = first; column < last; ++column) add_cell(column);
    strip_right(line);
    text += line + "\n";
  };
  add_line([&](std::size_t column) { return Cell{header_[column], Style::faint}; });
  for (const auto& row : rows_) {
    add_line([&](std::size_t column) { return column < row.size() ? row[column] : Cell{}; });
  }
  return text;
}

std::string TextTable::text(const Terminal& terminal) const {
  if (header_.empty()) return "";
  std::vector<int> columns = widths();
  const int shortest = std::min(36, terminal.width / 2);  // of a first column that is cut
  if (width() > terminal.width && columns[0] > shortest) {
    columns[0] = std::max(shortest, columns[0] - (width() - terminal.width));
  }
  std::string text;
  std::size_t first = 1;
  do {
    std::size_t last = first;
    int used = columns[0];
    while (last < columns.size() && (last == first || used + kGap + columns[last] <= terminal.width)) {
      used += kGap + columns[last++];
    }
    if (!text.empty()) text += "\n";
    text += block(columns, first, last, terminal);
    first = last;
  } while (first < columns.size());
  return text;
}

}  // namespace foretrain::report
