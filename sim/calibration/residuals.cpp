#include "sim/calibration/residuals.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <memory>
#include <tuple>

#include "sim/config/quote.h"
#include "sim/config/reader.h"
#include "sim/config/utf8.h"

namespace foretrain {
namespace {

constexpr std::size_t kMostRows = 100'000;
constexpr double kSmallestUnit = 1e-5;  // of a log error in the file: far below what any measurement resolves

double rounded(double log_error) { return std::round(log_error / kSmallestUnit) * kSmallestUnit; }

// The columns of the file, for writing and for reading alike.
template <class Row, class Visit>
void for_each_column(Row& row, Visit&& visit) {
  auto& run = row.run;
  visit("name", row.name);
  visit("source", row.source);
  visit("gpu", run.gpu);
  visit("architecture", run.architecture);
  visit("intra", run.intra);
  visit("network", run.network);
  visit("gpus", run.gpus);
  visit("nodes", run.nodes);
  visit("software", run.software);
  visit("family", run.family);
  visit("precision", run.precision);
  visit("attention", run.attention);
  visit("parameters", run.parameters);
  visit("seq_len", run.seq_len);
  visit("tp", run.tp);
  visit("pp", run.pp);
  visit("zero", run.zero);
  visit("cp", run.cp);
  visit("recompute", run.recompute);
  visit("log_error", row.log_error);
}

// A name that the format can hold.
std::string cell(std::string text) {
  for (char& c : text) {
    if (c == ',' || c == '"' || static_cast<unsigned char>(c) < ' ') c = '_';
  }
  if (text.starts_with('#')) text.front() = '_';
  return text;
}
std::string cell(double log_error) { return fmt::format("{:.5f}", log_error + 0.0); }  // + 0.0: no "-0.00000"
template <class Integer>
std::string cell(Integer value) {
  return fmt::format("{}", value);
}

// What is wrong with a cell; empty if it was taken.
Message take(std::string_view text, const char*, std::string& value) {
  value = text;
  const bool good = !text.empty() && text.find('"') == std::string_view::npos;
  return good ? Message() : message("must be a name without quotes");
}
Message take(std::string_view text, const char*, double& log_error) {
  constexpr double kMost = 20.0;
  const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), log_error);
  const bool good = wrong == std::errc() && end == text.data() + text.size() && std::abs(log_error) <= kMost;
  return good ? Message() : message("must be a number from {} to {}", -kMost, kMost);
}
template <class Integer>
Message take(std::string_view text, const char* column, Integer& value) {
  constexpr auto kMost = static_cast<Integer>(sizeof(Integer) < 8 ? 1LL << 30 : 1LL << 53);
  const Integer least = std::string_view(column) == "zero" ? 0 : 1;
  const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool good = wrong == std::errc() && end == text.data() + text.size() && value >= least && value <= kMost;
  return good ? Message() : message("must be a whole number from {} to {}", least, kMost);
}

std::vector<std::string_view> cells_of(std::string_view line) {
  std::vector<std::string_view> cells;
  for (std::size_t start = 0;;) {
    const std::size_t comma = std::min(line.find(',', start), line.size());
    cells.push_back(line.substr(start, comma - start));
    if (comma == line.size()) return cells;
    start = comma + 1;
  }
}

// Reads the file line by line. Not through a tree of values as other data: every `foretrain run` waits for it.
class ResidualReader {
 public:
  ResidualReader(const std::string& file_name, Diagnostics& diagnostics)
      : name_(std::make_shared<const std::string>(file_name)), diagnostics_(diagnostics) {}

  void line(std::string_view text) {
    ++line_;
    if (text.ends_with('\r')) text.remove_suffix(1);
    if (text.empty()) return;
    if (text.starts_with("#:")) return setting(text.substr(2));
    if (text.starts_with('#')) return;
    if (!named_) return columns(text);
    if (file_.rows.size() == kMostRows) return error(text, text, message("more than {} rows", kMostRows));
    row(text);
  }

  ResidualFile finish() {
    if (!named_) error({}, {}, message("there is no line that names the columns"));
    return std::move(file_);
  }

 private:
  // Tens of errors say no more than ten.
  void error(std::string_view line, std::string_view at, Message message) {
    constexpr int kShown = 10;
    if (++errors_ > kShown) return;
    const int column = at.data() == nullptr ? 1 : static_cast<int>(at.data() - line.data()) + 1;
    diagnostics_.error({name_, line_, column}, std::move(message));
  }

  void setting(std::string_view text) {
    const std::size_t colon = text.find(": ");
    if (colon == std::string_view::npos) return;
    const std::string_view key = text.substr(text.find_first_not_of(' '), colon - text.find_first_not_of(' '));
    const std::string_view word = text.substr(colon + 2);
    double value = 0;
    const auto [end, wrong] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (wrong == std::errc() && end == word.data() + word.size()) file_.settings[std::string(key)] = value;
  }

  void columns(std::string_view text) {
    named_ = true;
    std::string expected;
    Residual any;
    for_each_column(
        any, [&](const char* column, const auto&) { expected += (expected.empty() ? "" : ",") + std::string(column); });
    if (text != expected) error(text, text, message("the columns must be {}", expected));
  }

  void row(std::string_view text) {
    const std::vector<std::string_view> cells = cells_of(text);
    Residual row;
    std::size_t next = 0;
    for_each_column(row, [&](const char* column, auto& value) {
      if (next++ >= cells.size()) return;
      const std::string_view one = cells[next - 1];
      if (const Message wrong = take(one, column, value); !wrong.empty()) {
        error(text, one, message("{} {}, not {}", column, wrong, config::in_quotes(one)));
      }
    });
    if (cells.size() != next) error(text, text, message("{} cells; there are {} columns", cells.size(), next));
    file_.rows.push_back(std::move(row));
  }

  std::shared_ptr<const std::string> name_;
  Diagnostics& diagnostics_;
  int line_ = 0, errors_ = 0;
  bool named_ = false;
  ResidualFile file_;
};

}  // namespace

RunTraits traits_of(const Case& c) {
  RunTraits run;
  run.gpu = c.cluster.gpu.name;
  run.architecture = c.cluster.gpu.architecture;
  run.software = c.software.name;
  run.family = c.software.family.empty() ? c.software.name : c.software.family;
  run.gpus = c.plan.gpus();
  run.nodes = c.cluster.nodes();
  if (run.gpus > 1 && c.cluster.gpus_per_node > 1) run.intra = to_string(c.cluster.intra);
  if (run.nodes > 1) run.network = to_string(c.cluster.network);
  run.precision = to_string(c.train.precision);
  run.attention = to_string(c.train.attention);
  run.recompute = Recompute::to_string(c.plan.recompute.mode);
  run.parameters = c.model.parameters();
  run.seq_len = c.train.seq_len;
  run.tp = c.plan.tp;
  run.pp = c.plan.pp;
  run.zero = c.plan.zero;
  run.cp = c.plan.cp;
  return run;
}

bool is_trusted(std::string_view source) { return !source.ends_with("-low") && !source.ends_with("-ext"); }

std::vector<Residual> residuals_of(std::span<const MeasuredFile> files, const Validation& validation,
                                   const std::map<std::string, std::string>& left_out) {
  std::vector<Residual> residuals;
  std::size_t next = 0;  // the comparisons are of the files' cases that are not refused, in their order
  for (const MeasuredFile& file : files) {
    const std::string source = std::filesystem::path(file.path).stem().string();
    const bool counts = is_trusted(source);
    for (const MeasuredCase& measured : file.cases) {
      if (!measured.subject) continue;
      const auto error = validation.cases.at(next++).error();
      if (!counts || !error || *error <= -1.0 || left_out.contains(measured.name)) continue;
      residuals.push_back(
          {cell(measured.name), cell(source), traits_of(*measured.subject), rounded(std::log1p(*error))});
    }
  }
  std::stable_sort(residuals.begin(), residuals.end(), [](const Residual& a, const Residual& b) {
    return std::tie(a.source, a.name) < std::tie(b.source, b.name);
  });
  return residuals;
}

std::string residuals_csv(std::span<const Residual> residuals, std::span<const std::string> head) {
  std::string text;
  for (const std::string& line : head) text += "#: " + line + "\n";
  const auto add_line = [&](const Residual& row, const auto& field) {
    std::string line;
    for_each_column(
        row, [&](const char* column, const auto& value) { line += (line.empty() ? "" : ",") + field(column, value); });
    text += line + "\n";
  };
  add_line({}, [](const char* column, const auto&) { return std::string(column); });
  for (const Residual& row : residuals) add_line(row, [](const char*, const auto& value) { return cell(value); });
  return text;
}

std::optional<ResidualFile> read_residuals(std::string_view text, const std::string& file_name,
                                           Diagnostics& diagnostics) {
  const int errors_before = diagnostics.error_count();
  if (const config::TextCheck check = config::check_text(text); !check.wrong.empty()) {
    diagnostics.error({std::make_shared<const std::string>(file_name), check.line, check.column}, check.wrong);
    return std::nullopt;
  }
  ResidualReader reader(file_name, diagnostics);
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    reader.line(text.substr(start, end - start));
    start = end + 1;
  }
  ResidualFile file = reader.finish();
  if (diagnostics.error_count() > errors_before) return std::nullopt;
  return file;
}

}  // namespace foretrain
