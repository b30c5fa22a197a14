#include "sim/interchange/topology_matrix.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <memory>

#include "sim/config/quote.h"

namespace foretrain {
namespace {

using Cell = TopologyMatrix::Cell;

bool all_digits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

bool is_gpu(std::string_view word) { return word.starts_with("GPU") && all_digits(word.substr(3)); }

// "NV12", "PIX", "X" ...; SOC is what SYS was called before 2018.
std::optional<Cell> read_cell(std::string_view word) {
  if (word == "X") return Cell{};
  if (word == "PIX") return Cell{TopologyLink::pix};
  if (word == "PXB") return Cell{TopologyLink::pxb};
  if (word == "PHB") return Cell{TopologyLink::phb};
  if (word == "NODE") return Cell{TopologyLink::node};
  if (word == "SYS" || word == "SOC") return Cell{TopologyLink::sys};
  if (!word.starts_with("NV") || !all_digits(word.substr(2)) || word.size() > 4) return std::nullopt;
  int links = 0;
  std::from_chars(word.data() + 2, word.data() + word.size(), links);
  return links > 0 ? std::optional(Cell{TopologyLink::nvlink, links}) : std::nullopt;
}

// The words of a line without escape sequences of colours.
std::vector<std::string> words_of(std::string_view line) {
  std::vector<std::string> words;
  bool in_word = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\x1b') {
      while (i < line.size() && line[i] != 'm') ++i;
    } else if (line[i] == ' ' || line[i] == '\t' || line[i] == '\r') {
      in_word = false;
    } else {
      if (!in_word) words.emplace_back();
      words.back() += line[i];
      in_word = true;
    }
  }
  return words;
}

// The table while its rows come in.
struct Table {
  TopologyMatrix matrix;
  std::vector<std::vector<Cell>> rows;
  std::vector<SourcePosition> positions;
};

void take_row(const std::vector<std::string>& words, const SourcePosition& position, Table& table,
              Diagnostics& diagnostics) {
  const std::string expected = fmt::format("GPU{}", table.rows.size());
  if (words[0] != expected) {
    return diagnostics.error(
        position, message("the row of {} stands where that of {} is expected", config::in_quotes(words[0]), expected));
  }
  std::vector<Cell> row;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::optional<Cell> cell = read_cell(words[i]);
    if (!cell) break;  // affinities follow
    row.push_back(*cell);
  }
  const auto gpus = static_cast<std::size_t>(table.matrix.gpus);
  if (row.size() < gpus) {
    const Message wrong = row.size() + 1 < words.size()
                              ? message("{} is no link", config::in_quotes(words[row.size() + 1]))
                              : message("the row ends early");
    return diagnostics.error(
        position, message("{}: {}; a row has {} of X, NV1 to NV99, PIX, PXB, PHB, NODE, SYS", words[0], wrong, gpus));
  }
  table.rows.push_back(std::move(row));
  table.positions.push_back(position);
}

void check_rows(const Table& table, Diagnostics& diagnostics) {
  const TopologyMatrix& m = table.matrix;
  for (int a = 0; a < m.gpus; ++a) {
    const auto row = static_cast<std::size_t>(a);
    if (table.rows[row].size() != table.rows[0].size()) {
      diagnostics.error(table.positions[row], message("GPU{} has {} links and GPU0 {}; every row has the same number",
                                                      a, table.rows[row].size(), table.rows[0].size()));
      continue;
    }
    for (int b = 0; b < m.gpus; ++b) {
      const auto column = static_cast<std::size_t>(b);
      const Cell& cell = table.rows[row][column];
      if ((cell.link == TopologyLink::self) != (a == b)) {
        diagnostics.error(table.positions[row],
                          message("GPU{} and GPU{}: X stands on the diagonal and only there", a, b));
      } else if (b < a && table.rows[column].size() > row && !(table.rows[column][row] == cell)) {
        diagnostics.error(table.positions[row],
                          message("GPU{} and GPU{} have two different links; a link is the same both ways", b, a));
      }
    }
  }
}

}  // namespace

std::optional<TopologyMatrix> read_topology_matrix(std::string_view text, const std::string& file_name,
                                                   Diagnostics& diagnostics) {
  const int errors_before = diagnostics.error_count();
  const auto file = std::make_shared<const std::string>(file_name);
  Table table;
  int line_number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const SourcePosition position{file, ++line_number, 1};
    const std::vector<std::string> words = words_of(text.substr(begin, end - begin));
    begin = end + 1;
    if (words.empty() || !is_gpu(words[0])) continue;
    if (table.matrix.gpus == 0) {
      table.matrix.gpus = static_cast<int>(std::count_if(words.begin(), words.end(), is_gpu));
      if (table.matrix.gpus > kMostTopologyGpus) {
        diagnostics.error(position,
                          message("{} GPUs in one host; at most {} are read", table.matrix.gpus, kMostTopologyGpus));
        return std::nullopt;
      }
    } else if (static_cast<int>(table.rows.size()) < table.matrix.gpus) {
      take_row(words, position, table, diagnostics);
    }
    if (diagnostics.error_count() > errors_before) return std::nullopt;
  }
  TopologyMatrix& matrix = table.matrix;
  if (matrix.gpus == 0 || static_cast<int>(table.rows.size()) < matrix.gpus) {
    diagnostics.error(
        {file, std::max(line_number, 1), 1},
        matrix.gpus == 0
            ? message("there is no table of GPUs here; paste what 'nvidia-smi topo -m' prints")
            : message("the table ends after {} of {} GPUs; paste all of it", table.rows.size(), matrix.gpus));
    return std::nullopt;
  }
  check_rows(table, diagnostics);
  if (diagnostics.error_count() > errors_before) return std::nullopt;
  matrix.nics = static_cast<int>(table.rows[0].size()) - matrix.gpus;
  if (matrix.nics > kMostTopologyNics) {
    diagnostics.error(table.positions[0], message("{} NICs; at most {} are read", matrix.nics, kMostTopologyNics));
    return std::nullopt;
  }
  for (const std::vector<Cell>& row : table.rows) {
    matrix.gpu_cells.insert(matrix.gpu_cells.end(), row.begin(), row.begin() + matrix.gpus);
    matrix.nic_cells.insert(matrix.nic_cells.end(), row.begin() + matrix.gpus, row.end());
  }
  return std::move(matrix);
}

}  // namespace foretrain
