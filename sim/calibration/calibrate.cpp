#include "sim/calibration/calibrate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "sim/config/quote.h"

namespace foretrain {
namespace {

using Kind = CalibrationRule::Kind;

constexpr double kBoostedOfSustained = 0.93;  // loops over best shapes and bursts (A100, H100: 0.91-0.97)
constexpr double kFine = 0.005, kCoarse = 0.01, kPrologueStep = 50, kFloorStep = 0.5;

double rounded(double value, double step) { return std::round(value / step) * step; }

double sustained_of(const CalibrationRule& rule, Condition condition) {
  return rule.sustained.value_or(condition == Condition::loop ? 1.0 : kBoostedOfSustained);
}

std::string condition_text(const FitQuality& q) {
  switch (q.condition) {
    case Condition::loop:
      return fmt::format("{} row{} in loops", q.rows, q.rows == 1 ? "" : "s");
    case Condition::burst:
      return fmt::format("{} row{} in bursts", q.rows, q.rows == 1 ? "" : "s");
    case Condition::best_shape:
      return fmt::format("{} best shape{}", q.rows, q.rows == 1 ? "" : "s");
  }
  return "";
}

std::string fit_text(const std::string& figures, const FitQuality& q) {
  std::string text = fmt::format("{} by {}", figures, condition_text(q));
  if (q.rows > 2) text += fmt::format(", error median {:.1f} %, p90 {:.1f} %", 100 * q.median_error, 100 * q.p90_error);
  if (q.at_bound) text += "; at the bound of what is physical";
  return text;
}

// What the rows of one figure say.
struct Fitted {
  std::vector<double> values;
  FitQuality quality;
  std::string text;
};

class Calibrator {
 public:
  Calibrator(const CalibrationRules& rules, const Measurements& measurements, Diagnostics& diagnostics)
      : rules_(rules), measurements_(measurements), diagnostics_(diagnostics) {
    for (const FileRules& file : rules.files) by_name_[file.name] = &file;
  }

  CalibratedFile file(const FileRules& rules) {
    CalibratedFile result{rules.name, rules.title, rules.measured_on, {}};
    const auto add = [&](const std::string& figure) { result.figures.push_back(resolve(rules, figure)); };
    for (int i = 0; i < kMeasuredPrecisions; ++i) add(fmt::format("matmul.{}", to_string(static_cast<Precision>(i))));
    add("memory");
    add("kernel_floor_us");
    add("elementwise_floor_us");
    for (std::size_t k = 1; k < kAttentionKernels; ++k) add(fmt::format("attention.flash{}", k));
    add("collective_channels");
    return result;
  }

 private:
  const CalibrationRule& rule_of(const FileRules& file, const std::string& figure) const {
    for (int i = 0; i < kPrecisions; ++i) {
      const auto index = static_cast<std::size_t>(i);
      if (figure == fmt::format("matmul.{}", to_string(static_cast<Precision>(i)))) return file.matmul[index];
    }
    for (std::size_t k = 1; k < kAttentionKernels; ++k) {
      if (figure == fmt::format("attention.flash{}", k)) return file.attention[k];
    }
    if (figure == "memory") return file.memory;
    if (figure == "kernel_floor_us") return rules_.kernel_floor;
    if (figure == "elementwise_floor_us") return rules_.elementwise_floor;
    return file.collective_channels;
  }

  std::optional<Fitted> fit(const FileRules& file, const std::string& figure, const CalibrationRule& rule) const {
    for (int i = 0; i < kPrecisions; ++i) {
      const auto precision = static_cast<Precision>(i);
      if (figure != fmt::format("matmul.{}", to_string(precision))) continue;
      const auto result = fit_matmul(measurements_, file.name, precision);
      if (!result) return std::nullopt;
      return Fitted{{result->value}, result->quality, fit_text(fmt::format("{:.3f}", result->value), result->quality)};
    }
    if (figure == "memory") {
      const auto result = fit_memory(measurements_, file.name);
      if (!result) return std::nullopt;
      return Fitted{{result->value}, result->quality, fit_text(fmt::format("{:.3f}", result->value), result->quality)};
    }
    for (std::size_t k = 1; k < kAttentionKernels; ++k) {
      if (figure != fmt::format("attention.flash{}", k)) continue;
      const auto result = fit_attention(measurements_, file.name, static_cast<AttentionKernel>(k));
      return result ? attention_fit(*result, rule) : std::nullopt;
    }
    if (figure == "kernel_floor_us") {
      const auto result = fit_launch(measurements_, std::nullopt);
      if (!result) return std::nullopt;
      std::string text = fmt::format("{:.2f} us in a stream", result->stream_us);
      if (result->graph_us) text += fmt::format(", {:.2f} us in a graph", *result->graph_us);
      return Fitted{
          {result->stream_us}, result->quality, text + fmt::format(", median of {} cards", result->quality.rows)};
    }
    return std::nullopt;
  }

  // Rows of one pass alone are a fit if the rule says what the other is to it.
  static std::optional<Fitted> attention_fit(const AttentionFit& fit, const CalibrationRule& rule) {
    if (!fit.forward || (!fit.backward && !rule.backward_of_forward)) return std::nullopt;
    const double forward = *fit.forward;
    const double backward = fit.backward ? *fit.backward : forward * *rule.backward_of_forward;
    const std::string passes = fit.backward ? fmt::format("{:.3f} forward, {:.3f} backward", forward, backward)
                                            : fmt::format("{:.3f} forward", forward);
    const std::string prologue = fit.prologue_measured ? fmt::format(", {:.0f} tokens", fit.prologue) : "";
    return Fitted{{forward, backward, fit.prologue}, fit.quality, fit_text(passes + prologue, fit.quality)};
  }

  CalibratedFigure resolve(const FileRules& file, const std::string& figure) {
    const std::string key = file.name + "/" + figure;
    if (const auto known = resolved_.find(key); known != resolved_.end()) return known->second;
    const CalibrationRule& rule = rule_of(file, figure);
    if (!in_work_.insert(key).second) {
      diagnostics_.error(rule.position, message("{} of {} refers to itself by way of others", figure, file.name));
      return {};
    }
    CalibratedFigure result = rule.kind == Kind::absent ? CalibratedFigure{} : figure_of(file, figure, rule);
    result.name = figure;
    in_work_.erase(key);
    return resolved_[key] = result;
  }

  CalibratedFigure figure_of(const FileRules& file, const std::string& figure, const CalibrationRule& rule) {
    CalibratedFigure result;
    result.source = rule.source;
    result.origin = rule.kind;
    const std::optional<Fitted> fitted = fit(file, figure, rule);
    if (fitted) {
      result.fitted = fitted->values;
      result.quality = fitted->quality;
      result.kernels = fitted->text;
    }
    const bool attention = figure.starts_with("attention.");
    const std::vector<double> literal =
        attention ? std::vector{rule.attention.forward, rule.attention.backward, rule.attention.prologue}
                  : std::vector{rule.value};
    if (rule.kind == Kind::value) {
      result.values = literal;
      if (fitted && figure != "kernel_floor_us") result.sustained = ratio_text(*fitted, literal);
    } else if (fitted) {
      result.origin = Kind::measured;
      take_fit(figure, rule, *fitted, result);
    } else if (rule.kind == Kind::measured) {
      diagnostics_.error(rule.position,
                         message("no measurements say what {} of {} is; give a value, or an `as`", figure, file.name));
    } else if (rule.kind == Kind::as) {
      result.values = other(file, figure, rule);
    } else {
      result.values = literal;
    }
    return result;
  }

  static std::string ratio_text(const Fitted& fitted, const std::vector<double>& values) {
    std::string text = fmt::format("{:.3f} of what the kernels alone reach", values[0] / fitted.values[0]);
    if (values.size() > 1) text += fmt::format(" forward, {:.3f} backward", values[1] / fitted.values[1]);
    return text;
  }

  static void take_fit(const std::string& figure, const CalibrationRule& rule, const Fitted& fitted,
                       CalibratedFigure& result) {
    if (figure == "kernel_floor_us") {
      result.values = {rounded(fitted.values[0], kFloorStep)};
      return;
    }
    const double factor = sustained_of(rule, fitted.quality.condition);
    const bool few = fitted.quality.condition == Condition::best_shape || fitted.quality.rows < 3;
    result.values = fitted.values;
    for (std::size_t i = 0; i < std::min<std::size_t>(2, result.values.size()); ++i) {
      result.values[i] = std::min(1.1, rounded(result.values[i] * factor, few ? kCoarse : kFine));
    }
    if (result.values.size() > 2) result.values[2] = rounded(result.values[2], kPrologueStep);
    result.sustained =
        factor == 1.0 ? "all of what these rows reach" : fmt::format("{:.3g} of what these rows reach", factor);
  }

  std::vector<double> other(const FileRules& file, const std::string& figure, const CalibrationRule& rule) {
    const auto named = by_name_.find(rule.as);
    const bool precision = named == by_name_.end();
    const std::string from = precision ? "matmul." + rule.as : figure;
    const FileRules& source = precision ? file : *named->second;
    const CalibratedFigure taken = known_precision(rule.as) || !precision ? resolve(source, from) : CalibratedFigure{};
    if (taken.values.empty()) {
      diagnostics_.error(rule.position, message("{} has no {} to take over", config::in_quotes(rule.as), figure));
      return {0.0, 0.0, 0.0};
    }
    double factor = rule.times;
    if (rule.like_matmul) factor *= half_precision(file) / half_precision(source);
    std::vector<double> values = taken.values;
    if (factor == 1.0) return values;
    for (std::size_t i = 0; i < std::min<std::size_t>(2, values.size()); ++i) {
      values[i] = std::min(1.1, rounded(values[i] * factor, kCoarse));
    }
    return values;
  }

  static bool known_precision(const std::string& name) {
    for (int i = 0; i < kPrecisions; ++i) {
      if (name == to_string(static_cast<Precision>(i))) return true;
    }
    return false;
  }

  double half_precision(const FileRules& file) {
    for (const char* figure : {"matmul.bf16", "matmul.fp16"}) {
      const CalibratedFigure found = resolve(file, figure);
      if (!found.values.empty() && found.values[0] > 0) return found.values[0];
    }
    diagnostics_.error(file.position, message("{} has neither a bf16 nor an fp16 rate", file.name));
    return 1.0;
  }

  const CalibrationRules& rules_;
  const Measurements& measurements_;
  Diagnostics& diagnostics_;
  std::map<std::string, const FileRules*> by_name_;
  std::map<std::string, CalibratedFigure> resolved_;
  std::set<std::string> in_work_;
};

// Rows must belong to a file that the rules have, and every card's file must be there.
void check_cards(const CalibrationRules& rules, const Measurements& measurements, const DataFolder& data,
                 Calibration& result, Diagnostics& diagnostics) {
  const auto file_of = [&](const std::string& name) {
    return std::find_if(rules.files.begin(), rules.files.end(), [&](const FileRules& f) { return f.name == name; });
  };
  for (const Datasheet& card : measurements.cards) {
    const auto file = file_of(card.achieved);
    if (file == rules.files.end()) {
      diagnostics.error(card.achieved_at, message("{} has no entry in rules.yaml", config::in_quotes(card.achieved)));
    }
  }
  const config::Catalogue catalogue(data.path + "/hardware/gpus", "GPU");
  for (const std::string& name : catalogue.names()) {
    const std::optional<Datasheet> card = load_datasheet(data, name, {}, diagnostics);
    if (!card) continue;
    const auto file = file_of(card->achieved);
    if (file == rules.files.end()) continue;
    const auto& own = file->measured_on;
    if (std::find(own.begin(), own.end(), name) == own.end()) result.inherited.push_back(name + " as " + file->name);
  }
}

}  // namespace

std::optional<Calibration> calibrate(const CalibrationRules& rules, const Measurements& measurements,
                                     const DataFolder& data, Diagnostics& diagnostics) {
  const int errors_before = diagnostics.error_count();
  Calibration result;
  result.rows = measurements.rows.size();
  result.cards = measurements.cards.size();
  check_cards(rules, measurements, data, result, diagnostics);
  Calibrator calibrator(rules, measurements, diagnostics);
  for (const FileRules& file : rules.files) {
    result.files.push_back(calibrator.file(file));
  }
  if (diagnostics.error_count() > errors_before) return std::nullopt;
  return result;
}

}  // namespace foretrain
