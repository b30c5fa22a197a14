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

std::string percent_of(double fraction) { return fmt::format("{:.1f} %", 100 * fraction); }

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
        row.median = percent_of(f.quality->median_error);
        row.p90 = percent_of(f.quality->p90_error);
        row.without =
            fmt::format("{}{}", fmt::join(f.quality->without_data, "; "), f.quality->at_bound ? " (at bound)" : "");
      }
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

std::string classes_table(const CollectiveFit& fit) {
  std::string text = fmt::format(
      "\nCollectives: {} points of {} runs; error mean and median {} and {} as given, {} and {} as written, {} and {}\n"
      "with all constants fitted together, {} and {} for a kind of machine that the fit has not seen:\n",
      fit.points, fit.runs, percent_of(fit.given.mean), percent_of(fit.given.median), percent_of(fit.written.mean),
      percent_of(fit.written.median), percent_of(fit.fitted.mean), percent_of(fit.fitted.median), percent_of(fit.left_out.mean),
      percent_of(fit.left_out.median));
  text += fmt::format("  {:<34}{:>6}{:>8}{:>10}{:>10}{:>10}\n", "kind of machine", "runs", "points", "given", "fitted",
                      "unseen");
  for (const CollectiveFit::Class& c : fit.classes) {
    text += fmt::format("  {:<34}{:>6}{:>8}{:>10}{:>10}{:>10}\n", c.name, c.runs, c.points, percent_of(c.given),
                        percent_of(c.fitted), percent_of(c.left_out));
  }
  return text;
}

const ConstantFit* fit_of(const Calibration& calibration, const std::string& name) {
  const auto fit = std::find_if(calibration.constants.begin(), calibration.constants.end(),
                                [&](const ConstantFit& f) { return f.name == name && f.points > 0; });
  return fit != calibration.constants.end() ? &*fit : nullptr;
}

std::string constants_table(const Calibration& calibration) {
  std::string text = fmt::format("\nConstants:\n  {:<58}{:>8}{:>10}{:>8}{:>10}  {}\n", "", "given", "fitted", "points",
                                 "machines", "written");
  std::vector<std::string> without;
  for (const ConstantRule& rule : calibration.given) {
    const ConstantFit* fit = fit_of(calibration, rule.name);
    if (fit == nullptr) {
      without.push_back(fmt::format("{} ({:.3g})", rule.name, rule.value));
      continue;
    }
    text += fmt::format("  {:<58}{:>8.3g}{:>10.3g}{:>8}{:>10}  {}{}{}\n", rule.name, rule.value, fit->fitted,
                        fit->points, fit->systems.size(), rule.take_fit ? "fitted" : "given",
                        fit->at_bound ? ", at the bound" : "", fit->detail.empty() ? "" : ", " + fit->detail);
  }
  if (without.empty()) return text;
  return text +
         fmt::format("\nGiven constants that no measurement here speaks of:\n  {}\n", fmt::join(without, "\n  "));
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
  if (calibration.collectives.points > 0) text += classes_table(calibration.collectives);
  if (!calibration.given.empty()) text += constants_table(calibration);
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
