#include <fmt/format.h>

#include <algorithm>

#include "sim/calibration/calibrate.h"

namespace foretrain {
namespace {

using Kind = CalibrationRule::Kind;

const char* origin_of(Kind kind) {
  switch (kind) {
    case Kind::absent:
      return "absent";
    case Kind::value:
      return "decided";
    case Kind::measured:
      return "kernels";
    case Kind::as:
      return "inherited";
    case Kind::assumed:
      return "assumed";
  }
  return "";
}

std::string joined(const std::vector<double>& values) {
  std::vector<std::string> texts;
  for (const double v : values) texts.push_back(v >= 10 ? fmt::format("{:.0f}", v) : fmt::format("{:.3f}", v));
  return fmt::format("{}", fmt::join(texts, "/"));
}

std::string percent(double fraction) { return fmt::format("{:.1f} %", 100 * fraction); }

bool shared_by_all(const CalibratedFigure& figure) {
  return figure.name == "kernel_floor_us" || figure.name == "elementwise_floor_us";
}

struct Row {
  std::string file, figure, value, fitted, rows, condition, median, p90, from, without;
};

// The figures of all files; those that all files share once.
std::vector<Row> rows_of(const Calibration& calibration, bool every) {
  std::vector<Row> rows;
  for (std::size_t i = 0; i < calibration.files.size(); ++i) {
    for (const CalibratedFigure& f : calibration.files[i].figures) {
      if (f.values.empty() || (shared_by_all(f) && i > 0) || (!f.quality && !every)) continue;
      Row row{shared_by_all(f) ? "all" : calibration.files[i].name,
              f.name,
              joined(f.values),
              joined(f.fitted),
              "",
              "",
              "",
              "",
              origin_of(f.origin),
              ""};
      if (f.quality) {
        row.rows = std::to_string(f.quality->rows);
        row.condition = to_string(f.quality->condition);
        row.median = percent(f.quality->median_error);
        row.p90 = percent(f.quality->p90_error);
        row.without =
            fmt::format("{}{}", fmt::join(f.quality->without_data, "; "), f.quality->at_bound ? " (at bound)" : "");
      }
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

std::string collectives_table(const CollectiveFit& fit) {
  std::string text = fmt::format(
      "\nCollectives: {} points of {} runs; error mean {}, median {} as collectives.yaml stands (kept by hand),\n"
      "{} and {} with the constants refitted together:\n",
      fit.points, fit.runs, percent(fit.mean_error), percent(fit.median_error), percent(fit.fitted_mean_error),
      percent(fit.fitted_median_error));
  text += fmt::format("  {:<48}{:>8}{:>10}{:>8}\n", "constant", "value", "runs say", "points");
  for (const CollectiveConstant& c : fit.constants) {
    const std::string says = c.points > 0 ? fmt::format("{:.3g}", c.fitted) : "no data";
    text += fmt::format("  {:<48}{:>8.3g}{:>10}{:>8}\n", c.name, c.value, says, c.points);
  }
  return text;
}

std::string hosts_table(std::span<const HostRate> rates) {
  std::string text = fmt::format("\nCopies and host optimizers, medians:\n  {:<52}{:>8}{:>16}{:>6}{:>12}\n", "rate",
                                 "median", "range", "rows", "links.yaml");
  for (const HostRate& r : rates) {
    text += fmt::format("  {:<52}{:>8.3g}{:>16}{:>6}{:>12}\n", r.name, r.fitted,
                        fmt::format("{:.3g}-{:.3g}", r.lowest, r.highest), r.rows,
                        r.in_use ? fmt::format("{:.3g}", *r.in_use) : "");
  }
  return text;
}

}  // namespace

std::string calibration_table(const Calibration& calibration, bool every) {
  std::vector<Row> rows = rows_of(calibration, every);
  rows.insert(rows.begin(),
              {"file", "figure", "value", "kernels say", "rows", "timed in", "median", "p90", "from", "no data for"});
  const std::array columns = {&Row::file,      &Row::figure, &Row::value, &Row::fitted, &Row::rows,
                              &Row::condition, &Row::median, &Row::p90,   &Row::from,   &Row::without};
  std::array<std::size_t, columns.size()> widths{};
  for (const Row& row : rows) {
    for (std::size_t c = 0; c < columns.size(); ++c) widths[c] = std::max(widths[c], (row.*columns[c]).size());
  }
  std::string text = fmt::format("{} measured rows of {} cards\n\n", calibration.rows, calibration.cards);
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t c = 0; c < columns.size(); ++c) line += fmt::format("{:<{}}  ", row.*columns[c], widths[c]);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  if (calibration.collectives.points > 0) text += collectives_table(calibration.collectives);
  if (!calibration.hosts.empty()) text += hosts_table(calibration.hosts);
  if (!calibration.inherited.empty()) {
    text += fmt::format("\nNot measured, so with the figures of another card or of their family:\n  {}\n",
                        fmt::join(calibration.inherited, "\n  "));
  }
  return text;
}

std::string calibration_csv(const Calibration& calibration) {
  std::string text =
      "file,figure,value,kernels,rows,condition,median_error_percent,p90_error_percent,from,no_data_for\n";
  const auto figure = [](const std::string& percentage) { return percentage.substr(0, percentage.find(' ')); };
  for (const Row& r : rows_of(calibration, true)) {
    text += fmt::format("{},{},{},{},{},{},{},{},{},{}\n", r.file, r.figure, r.value, r.fitted, r.rows, r.condition,
                        figure(r.median), figure(r.p90), r.from,
                        r.without.find(',') == std::string::npos ? r.without : '"' + r.without + '"');
  }
  return text;
}

}  // namespace foretrain
