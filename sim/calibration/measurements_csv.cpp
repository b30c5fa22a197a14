#include <algorithm>

#include "sim/calibration/measurements.h"
#include "sim/config/quote.h"
#include "sim/config/utf8.h"

namespace foretrain {
namespace {

using config::in_quotes;
using config::Node;

constexpr std::size_t kLongestFile = std::size_t{64} << 20;
constexpr std::string_view kBlank = " \t\r";

struct Cell {
  std::string_view text;
  int column = 1;  // in bytes from 1
};

Cell trimmed(std::string_view text, int column) {
  const std::size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {{}, column};
  const std::size_t last = text.find_last_not_of(kBlank);
  return {text.substr(first, last - first + 1), column + static_cast<int>(first)};
}

std::vector<Cell> split(std::string_view line) {
  std::vector<Cell> cells;
  for (std::size_t start = 0;;) {
    const std::size_t comma = std::min(line.find(',', start), line.size());
    cells.push_back(trimmed(line.substr(start, comma - start), static_cast<int>(start) + 1));
    if (comma == line.size()) return cells;
    start = comma + 1;
  }
}

class CsvReader {
 public:
  CsvReader(const std::string& file_name, Diagnostics& diagnostics)
      : file_(std::make_shared<const std::string>(file_name)), diagnostics_(diagnostics) {}

  void line(std::string_view text) {
    ++line_;
    const Cell all = trimmed(text, 1);
    if (all.text.empty()) return;
    if (all.text.starts_with("#:")) return setting(trimmed(all.text.substr(2), all.column + 2));
    if (all.text.starts_with('#')) return;
    const std::vector<Cell> cells = split(text);
    for (const Cell& cell : cells) {
      if (cell.text.find('"') != std::string_view::npos) {
        return error(cell.column, message("quotes are not needed here, and a cell cannot hold a comma"));
      }
    }
    columns_.empty() ? columns(cells) : row(cells);
  }

  Node finish() {
    if (columns_.empty())
      error(1, message("there is no line that names the columns, such as gpu,kind,dtype,m,n,k,time_us"));
    Node all{{file_, 1, 1}, Node::Map(std::move(settings_))};
    all.map().push_back({"rows", {file_, 1, 1}, Node{{file_, 1, 1}, std::move(rows_)}});
    return all;
  }

 private:
  SourcePosition at(int column) const { return {file_, line_, column}; }
  void error(int column, Message message) { diagnostics_.error(at(column), std::move(message)); }
  Node::Entry entry(std::string_view key, const Cell& value) const {
    return {std::string(key), at(value.column), Node{at(value.column), std::string(value.text)}};
  }

  void setting(const Cell& text) {
    const std::size_t colon = text.text.find(':');
    if (colon == std::string_view::npos)
      return error(text.column, message("'#:' begins a line of the form #: key: value"));
    const Cell key = trimmed(text.text.substr(0, colon), text.column);
    const Cell value = trimmed(text.text.substr(colon + 1), text.column + static_cast<int>(colon) + 1);
    for (const Node::Entry& known : settings_) {
      if (known.key == key.text) return error(key.column, message("{} is set twice", in_quotes(key.text)));
    }
    settings_.push_back(entry(key.text, value));
  }

  void columns(const std::vector<Cell>& cells) {
    for (const Cell& cell : cells) {
      if (cell.text.empty()) error(cell.column, message("a column without a name"));
      if (std::find(columns_.begin(), columns_.end(), cell.text) != columns_.end()) {
        error(cell.column, message("column {} is there twice", in_quotes(cell.text)));
      }
      columns_.emplace_back(cell.text);
    }
  }

  void row(const std::vector<Cell>& cells) {
    if (cells.size() != columns_.size()) {
      return error(1, message("{} cells; there are {} columns", cells.size(), columns_.size()));
    }
    Node::Map map;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      if (!cells[i].text.empty()) map.push_back(entry(columns_[i], cells[i]));
    }
    rows_.push_back(Node{at(1), std::move(map)});
  }

  std::shared_ptr<const std::string> file_;
  Diagnostics& diagnostics_;
  int line_ = 0;
  Node::Map settings_;
  std::vector<std::string> columns_;
  Node::Sequence rows_;
};

}  // namespace

std::optional<Node> parse_csv(std::string_view text, const std::string& file_name, Diagnostics& diagnostics) {
  const int errors_before = diagnostics.error_count();
  const auto file = std::make_shared<const std::string>(file_name);
  if (text.size() > kLongestFile) {
    diagnostics.error({file, 1, 1}, message("more than 64 MiB; split the file"));
    return std::nullopt;
  }
  if (const config::TextCheck check = config::check_text(text); !check.wrong.empty()) {
    diagnostics.error({file, check.line, check.column}, check.wrong);
    return std::nullopt;
  }
  CsvReader reader(file_name, diagnostics);
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    reader.line(text.substr(start, end - start));
    start = end + 1;
  }
  Node node = reader.finish();
  if (diagnostics.error_count() > errors_before) return std::nullopt;
  return node;
}

}  // namespace foretrain
