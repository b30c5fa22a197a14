#include "sim/claims/check.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "sim/config/quote.h"

namespace foretrain {
namespace {

using config::MapReader;
using config::Node;
using config::Unit;

constexpr std::size_t kMostCases = 100;  // that one check compares
constexpr const char* kNeeded = "memory.gpu_peak_bytes";
constexpr const char* kCapacity = "memory.gpu_capacity_bytes";

struct Form {
  const char* key;
  Check::Kind kind;
  std::size_t fewest, most;  // cases
};
constexpr std::array<Form, 7> kForms = {{{"value", Check::Kind::value, 1, 1},
                                         {"ratio", Check::Kind::ratio, 2, 2},
                                         {"delta", Check::Kind::delta, 2, 2},
                                         {"ascending", Check::Kind::ascending, 2, kMostCases},
                                         {"descending", Check::Kind::descending, 2, kMostCases},
                                         {"fits", Check::Kind::fits, 1, kMostCases},
                                         {"oom", Check::Kind::out_of_memory, 1, kMostCases}}};

bool about_fitting(Check::Kind kind) { return kind == Check::Kind::fits || kind == Check::Kind::out_of_memory; }

// The one key of the map that says what kind of check it is.
const Form* form_of(MapReader& reader, const Node& node, Diagnostics& diagnostics) {
  const Form* found = nullptr;
  for (const Form& form : kForms) {
    if (!reader.has(form.key)) continue;
    if (found != nullptr) {
      reader.error(form.key, message("a check has both {} and {}; write two checks", found->key, form.key));
      return nullptr;
    }
    found = &form;
  }
  if (found == nullptr && node.is_map()) {
    diagnostics.error(
        node.position,
        message("a check needs one of value, ratio, delta, ascending, descending, fits, oom with what it is about"));
  }
  return found;
}

void read_range(MapReader& reader, Check& check) {
  const Unit unit = unit_of(check);
  const auto range = reader.number_list("range", unit);
  const auto least = reader.number("at_least", unit), most = reader.number("at_most", unit);
  const int given = reader.has("range") + reader.has("at_least") + reader.has("at_most");
  if (!check.has_range()) {
    for (const char* key : {"range", "at_least", "at_most"}) {
      if (reader.has(key)) reader.error(key, message("{} says nothing about this kind of check", key));
    }
    return;
  }
  if (given != 1) {
    reader.error("range", message("a check needs one of range: [LOW, HIGH], at_least, at_most"));
  } else if (range && (range->size() != 2 || range->front() > range->back())) {
    reader.error("range", message("range must be [LOW, HIGH]"));
  } else if (range) {
    check.low = range->front();
    check.high = range->back();
  }
  if (least) check.low = *least;
  if (most) check.high = *most;
}

std::vector<std::string> terms_of(std::string_view sum) {
  std::vector<std::string> terms;
  constexpr std::string_view kPlus = " + ";
  for (std::size_t begin = 0, end = 0; end != std::string_view::npos; begin = end + kPlus.size()) {
    end = sum.find(kPlus, begin);
    terms.emplace_back(sum.substr(begin, end == std::string_view::npos ? end : end - begin));
  }
  return terms;
}

// One figure or a sum of figures of a case.
class Lookup {
 public:
  Lookup(const Check& check, Diagnostics& diagnostics) : check_(check), diagnostics_(diagnostics) {}

  double operator()(const Figures& figures, std::string_view sum, const std::string& case_name) {
    double total = 0;
    for (const std::string& term : terms_of(sum)) {
      const auto found = figures.find(term);
      if (found == figures.end()) {
        report(figures, term, case_name);
        return 0;
      }
      total += found->second;
    }
    return total;
  }
  bool failed() const { return failed_; }

 private:
  void report(const Figures& figures, const std::string& term, const std::string& case_name) {
    failed_ = true;
    std::vector<std::string> known;
    for (const auto& [name, value] : figures) known.push_back(name);
    diagnostics_.error(check_.position, message("case {} has no figure {}{}", config::in_quotes(case_name),
                                                config::in_quotes(term), did_you_mean(term, known)));
  }

  const Check& check_;
  Diagnostics& diagnostics_;
  bool failed_ = false;
};

bool in_range(const Check& check, double figure, double tolerance) {
  const auto room = [&](double bound) { return std::isfinite(bound) ? std::abs(bound) * tolerance : 0.0; };
  return figure >= check.low - room(check.low) && figure <= check.high + room(check.high);
}

bool strictly_ordered(const std::vector<double>& values, bool ascending) {
  for (std::size_t i = 1; i < values.size(); ++i) {
    if (ascending ? values[i - 1] >= values[i] : values[i - 1] <= values[i]) return false;
  }
  return true;
}

}  // namespace

Unit unit_of_metric(std::string_view metric) {
  if (metric.ends_with("_bytes") || metric.find("memory.parts.") != std::string_view::npos) return Unit::bytes;
  const bool rate = metric.ends_with("per_s");
  const bool part = metric.starts_with("breakdown_s.") || metric.starts_with("offload_s.");
  return (metric.ends_with("_s") && !rate) || part ? Unit::seconds : Unit::count;
}

Unit unit_of(const Check& check) {
  if (check.kind == Check::Kind::ratio) return Unit::count;
  const Unit unit = unit_of_metric(check.metric);
  if (check.per.empty()) return unit;
  return unit == Unit::bytes && unit_of_metric(check.per) == Unit::seconds ? Unit::bytes_rate : Unit::count;
}

std::optional<Check> read_check(const Node& node, Diagnostics& diagnostics) {
  const int errors_before = diagnostics.error_count();
  MapReader reader(node, diagnostics, "check");
  Check check;
  check.position = node.position;
  if (const Form* form = form_of(reader, node, diagnostics)) {
    check.kind = form->kind;
    const char* const cases_key = about_fitting(check.kind) ? form->key : "of";
    if (!about_fitting(check.kind)) check.metric = reader.required_text(form->key);
    if (const auto cases = reader.text_list(cases_key)) check.cases = *cases;
    check.per = reader.text("per").value_or("");
    if (check.cases.size() < form->fewest || check.cases.size() > form->most) {
      reader.error(cases_key, message("{} needs {} in {}", form->key,
                                      form->most == 1   ? message("one case")
                                      : form->most == 2 ? message("two cases")
                                                        : message("{} or more cases", form->fewest),
                                      cases_key));
    }
    read_range(reader, check);
  }
  check.when = reader.text("when").value_or("");
  check.missed = reader.text("missed").value_or("");
  check.waits_for = reader.text("waits_for").value_or("");
  reader.finish();
  if (diagnostics.error_count() > errors_before) return std::nullopt;
  return check;
}

std::optional<CheckOutcome> evaluate(const Check& check, const std::vector<const Figures*>& of_cases, double tolerance,
                                     Diagnostics& diagnostics) {
  Lookup figure(check, diagnostics);
  const bool fitting = about_fitting(check.kind);
  CheckOutcome outcome;
  for (std::size_t i = 0; i < of_cases.size(); ++i) {
    double value = figure(*of_cases[i], fitting ? kNeeded : check.metric, check.cases[i]);
    const std::string_view per = fitting ? kCapacity : std::string_view(check.per);
    if (!per.empty()) value /= figure(*of_cases[i], per, check.cases[i]);
    outcome.of_cases.push_back(value);
  }
  if (figure.failed()) return std::nullopt;
  const std::vector<double>& values = outcome.of_cases;
  switch (check.kind) {
    case Check::Kind::value:
      outcome.figure = values[0];
      break;
    case Check::Kind::ratio:
      outcome.figure = values[0] / values[1];
      break;
    case Check::Kind::delta:
      outcome.figure = values[0] - values[1];
      break;
    case Check::Kind::ascending:
    case Check::Kind::descending:
      outcome.holds = strictly_ordered(values, check.kind == Check::Kind::ascending);
      break;
    case Check::Kind::fits:
      outcome.holds = std::all_of(values.begin(), values.end(), [](double share) { return share <= 1; });
      break;
    case Check::Kind::out_of_memory:
      outcome.holds = std::all_of(values.begin(), values.end(), [](double share) { return share > 1; });
      break;
  }
  if (check.has_range()) outcome.holds = in_range(check, outcome.figure, tolerance);
  return outcome;
}

}  // namespace foretrain
