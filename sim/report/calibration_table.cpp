#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "sim/report/calibration_report.h"
#include "sim/report/figures.h"

namespace foretrain::report {
namespace {

std::string slashed(const std::vector<double>& values) {
  std::vector<std::string> texts;
  for (const double v : values) texts.push_back(v >= 10 ? fmt::format("{:.0f}", v) : fmt::format("{:.3f}", v));
  return fmt::format("{}", fmt::join(texts, "/"));
}

bool shared_by_all(const CalibratedFigure& figure) {
  return figure.name == "kernel_floor_us" || figure.name == "elementwise_floor_us";
}

struct FigureRow {
  std::string file, figure, value, fitted, rows, condition, median, p90, from, without;
};
constexpr std::array kColumns = {&FigureRow::file, &FigureRow::figure,    &FigureRow::value,  &FigureRow::fitted,
                                 &FigureRow::rows, &FigureRow::condition, &FigureRow::median, &FigureRow::p90,
                                 &FigureRow::from, &FigureRow::without};

// The figures of all files; those that all files share once.
std::vector<FigureRow> rows_of(const Calibration& calibration, bool every, const Words& words) {
  std::vector<FigureRow> rows;
  for (std::size_t i = 0; i < calibration.files.size(); ++i) {
    for (const CalibratedFigure& f : calibration.files[i].figures) {
      if (f.values.empty() || (shared_by_all(f) && i > 0) || (!f.quality && !every)) continue;
      FigureRow row{shared_by_all(f) ? words.term("all") : calibration.files[i].name,
                    f.name,
                    slashed(f.values),
                    slashed(f.fitted),
                    "",
                    "",
                    "",
                    "",
                    words.term(origin_of(f.origin)),
                    ""};
      if (f.quality) {
        row.rows = std::to_string(f.quality->rows);
        row.condition = words.term(to_string(f.quality->condition));
        row.median = percent(f.quality->median_error);
        row.p90 = percent(f.quality->p90_error);
        std::vector<std::string> regions;
        for (const std::string& region : f.quality->without_data) regions.push_back(words.text(region));
        row.without =
            fmt::format("{}{}", fmt::join(regions, words("; ")), f.quality->at_bound ? words(" (at bound)") : "");
      }
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

// The last column is too long for a terminal, and wrapped there.
std::string figures_table(const Calibration& calibration, bool every, const Words& words) {
  std::vector<FigureRow> rows = rows_of(calibration, every, words);
  rows.insert(rows.begin(), {words("file"), words("figure"), words("value"), words("kernels say"), words("rows"),
                             words("timed in"), words("median"), "p90", words("from"), words("no data for")});
  std::array<int, kColumns.size()> widths{};
  for (const FigureRow& row : rows) {
    for (std::size_t c = 0; c < kColumns.size(); ++c) widths[c] = std::max(widths[c], display_width(row.*kColumns[c]));
  }
  std::string text;
  for (const FigureRow& row : rows) {
    std::string line;
    for (std::size_t c = 0; c < kColumns.size(); ++c) {
      const int room = widths[c] - display_width(row.*kColumns[c]) + 2;
      line += row.*kColumns[c] + std::string(static_cast<std::size_t>(room), ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string collectives_text(const CollectiveFit& fit, const Terminal& terminal) {
  const Words& words = terminal.words;
  const auto both = [](const auto& error) { return percent(error.mean) + " / " + percent(error.median); };
  const Message said = message(
      "Collectives: {} points of {} runs; error (mean / median) {} as given, {} as written, {} with all constants "
      "fitted together, {} for a kind of machine that the fit has not seen",
      fit.points, fit.runs, both(fit.given), both(fit.written), both(fit.fitted), both(fit.left_out));
  TextTable table(
      {words("kind of machine"), words("runs"), words("points"), words("given"), words("fitted"), words("unseen")});
  for (const CollectiveFit::Class& c : fit.classes) {
    table.add({{words.text(c.name)},
               {fmt::format("{}", c.runs)},
               {fmt::format("{}", c.points)},
               {percent(c.given)},
               {percent(c.fitted)},
               {percent(c.left_out)}});
  }
  return "\n" + wrapped(words(said), terminal.width, 2) + "\n" + table.text(terminal);
}

const ConstantFit* fit_of(const Calibration& calibration, const std::string& name) {
  const auto fit = std::find_if(calibration.constants.begin(), calibration.constants.end(),
                                [&](const ConstantFit& f) { return f.name == name && f.points > 0; });
  return fit != calibration.constants.end() ? &*fit : nullptr;
}

std::string constants_text(const Calibration& calibration, const Terminal& terminal) {
  const Words& words = terminal.words;
  TextTable table(
      {words("constant"), words("given"), words("fitted"), words("points"), words("machines"), words("written")});
  table.align_left(5);
  std::string without;
  for (const ConstantRule& rule : calibration.given) {
    const ConstantFit* fit = fit_of(calibration, rule.name);
    if (fit == nullptr) {
      without += fmt::format("  {} ({:.3g})\n", rule.name, rule.value);
      continue;
    }
    std::string written = rule.take_fit ? words("fitted") : words("given");
    if (fit->at_bound) written += words(", at the bound");
    if (!fit->detail.empty()) written += words(", ") + fit->detail;
    table.add({{rule.name},
               {fmt::format("{:.3g}", rule.value)},
               {fmt::format("{:.3g}", fit->fitted)},
               {fmt::format("{}", fit->points)},
               {fmt::format("{}", fit->systems.size())},
               {written}});
  }
  Terminal wide = terminal;  // names are looked up in files: they stay whole
  wide.width = std::max(wide.width, table.width());
  std::string text = "\n" + table.text(wide);
  if (!without.empty()) text += "\n" + words("given constants that no measurement here speaks of") + "\n" + without;
  return text;
}

}  // namespace

std::string calibration_table(const Calibration& calibration, bool every, const Terminal& terminal) {
  const Words& words = terminal.words;
  std::string text = words("{} measured rows of {} cards", calibration.rows, calibration.cards) + "\n\n" +
                     figures_table(calibration, every, words);
  if (calibration.collectives.points > 0) text += collectives_text(calibration.collectives, terminal);
  if (!calibration.given.empty()) text += constants_text(calibration, terminal);
  if (!calibration.inherited.empty()) {
    text += fmt::format("\n{}\n  {}\n", words("not measured, so with the figures of another card or of their family"),
                        fmt::join(calibration.inherited, "\n  "));
  }
  return text;
}

std::string calibration_csv(const Calibration& calibration) {
  std::string text =
      "file,figure,value,kernels,rows,condition,median_error_percent,p90_error_percent,from,no_data_for\n";
  const auto figure = [](const std::string& percentage) { return percentage.substr(0, percentage.find(' ')); };
  for (const FigureRow& r : rows_of(calibration, true, {})) {
    text += fmt::format("{},{},{},{},{},{},{},{},{},{}\n", r.file, r.figure, r.value, r.fitted, r.rows, r.condition,
                        figure(r.median), figure(r.p90), r.from,
                        r.without.find(',') == std::string::npos ? r.without : '"' + r.without + '"');
  }
  return text;
}

}  // namespace foretrain::report
