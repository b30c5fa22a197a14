#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "sim/report/describe.h"
#include "sim/report/figures.h"
#include "sim/report/table.h"
#include "sim/report/validation_names.h"

namespace foretrain::report {
namespace {

std::string share_or_dash(const std::optional<double>& value) { return value ? percent(*value) : "-"; }
std::string error_or_dash(const std::optional<double>& value) { return value ? signed_percent(*value) : "-"; }

std::string summary_text(const Validation& validation, const Terminal& terminal) {
  const Accuracy& a = validation.summary;
  std::vector<Message> lines = {message("{} cases compared, {} refused", a.cases, validation.refused.size())};
  if (a.failures > 0) lines.front() = message("{}, {} FAILED", lines.front(), a.failures);
  if (a.mape) {
    lines.push_back(message("step time ({} runs): mean error {}, median {}, nine in ten within {}, bias {}",
                            a.step_times, percent(*a.mape), percent(*a.median_ape), percent(*a.p90_ape),
                            signed_percent(*a.bias)));
  }
  if (validation.mape_of_sources && validation.sources.size() > 1) {
    lines.push_back(message("every source counted alike: mean error {}", percent(*validation.mape_of_sources)));
  }
  if (a.memory_mape) lines.push_back(message("memory ({} runs): mean error {}", a.memories, percent(*a.memory_mape)));
  if (a.oom_accuracy) {
    const Message right = message("fits or not: {} right", percent(*a.oom_accuracy));
    lines.push_back(a.oom_found ? message("{}; of {} runs out of memory {} were found", right, a.out_of_memory,
                                          percent(*a.oom_found))
                                : right);
  }
  if (a.pairwise_order_accuracy) {
    const Message right = message("which of two runs of a source is faster: {} of {} pairs right",
                                  percent(*a.pairwise_order_accuracy), a.pairs);
    lines.push_back(a.same_model_order_accuracy ? message("{}; {} of {} with the same model", right,
                                                          percent(*a.same_model_order_accuracy), a.same_model_pairs)
                                                : right);
  }
  std::string text;
  for (const Message& line : lines) text += wrapped(terminal.words(line), terminal.width, 2) + "\n";
  return text;
}

std::string sources_text(const Validation& validation, const Terminal& terminal) {
  const Words& words = terminal.words;
  TextTable table({words("source"), words("cases"), words("refused"), words("mean"), words("median"), words("bias"),
                   words("memory"), words("fits"), words("order")});
  for (const Validation::Source& s : validation.sources) {
    const Accuracy& a = s.accuracy;
    table.add({{source_name(s.path)},
               {std::to_string(a.cases)},
               {std::to_string(s.refused)},
               {share_or_dash(a.mape)},
               {share_or_dash(a.median_ape)},
               {error_or_dash(a.bias)},
               {share_or_dash(a.memory_mape)},
               {share_or_dash(a.oom_accuracy)},
               {share_or_dash(a.pairwise_order_accuracy)}});
  }
  return table.text(terminal);
}

// How far a case is off, for the list of the worst; failures first.
double badness(const Comparison& c) {
  if (!c.failure.empty()) return std::numeric_limits<double>::infinity();
  return std::max(std::abs(c.error().value_or(0)), std::abs(c.memory_error().value_or(0)));
}

Message fate(const Comparison& c) {
  if (!c.predicted_oom) return message("FAILED");
  const auto said = [](bool out_of_memory) { return out_of_memory ? message("OOM") : message("ran"); };
  const Message measured = said(c.measured_oom);
  return *c.predicted_oom == c.measured_oom ? measured : message("{}, not {}", measured, said(*c.predicted_oom));
}

std::string cases_text(const Validation& validation, const Terminal& terminal, bool every_case) {
  constexpr std::size_t kAll = 40, kWorst = 15;
  std::vector<std::size_t> shown(validation.cases.size());
  std::iota(shown.begin(), shown.end(), std::size_t{0});
  const bool some = !every_case && shown.size() > kAll;
  if (some) {
    std::stable_sort(shown.begin(), shown.end(), [&](std::size_t a, std::size_t b) {
      return badness(validation.cases[a]) > badness(validation.cases[b]);
    });
    shown.resize(kWorst);
  }
  if (shown.empty()) return "";
  const Words& words = terminal.words;
  TextTable table({some ? words("the worst cases (--all lists every one)") : words("case"), words("measured"),
                   words("predicted"), words("error"), words("memory GiB"), words("predicted"), words("error"),
                   words("fate")});
  for (std::size_t i : shown) {
    const Comparison& c = validation.cases[i];
    const auto seconds = [](const std::optional<double>& s) { return s ? significant(*s, 4) + " s" : "-"; };
    table.add({{c.name},
               {seconds(c.measured_step_time_s)},
               {seconds(c.predicted_step_time_s)},
               {error_or_dash(c.error())},
               {c.measured_memory ? gib(*c.measured_memory) : "-"},
               {c.measured_memory && c.predicted_memory ? gib(*c.predicted_memory) : "-"},
               {error_or_dash(c.memory_error())},
               {words(fate(c)), c.predicted_oom && *c.predicted_oom == c.measured_oom ? Style::plain : Style::bad}});
  }
  return table.text(terminal);
}

// Runs of which it was predicted wrongly whether they fit.
std::string wrong_fates_text(const Validation& validation, const Terminal& terminal) {
  constexpr std::size_t kShown = 40;
  std::size_t wrong = 0;
  std::vector<Message> names;
  for (const Comparison& c : validation.cases) {
    if (!c.predicted_oom || *c.predicted_oom == c.measured_oom || ++wrong > kShown) continue;
    names.push_back(message("{} ({})", c.name, fate(c)));
  }
  if (wrong == 0) return "";
  Message said = listed(names);
  if (wrong > kShown) said = message("{} and {} more", said, wrong - kShown);
  return styled(terminal.words("fits or not, wrong"), Style::faint, terminal) + "\n" +
         wrapped("  " + terminal.words(said), terminal.width, 2) + "\n";
}

// Reasons with how often they were given, most frequent first.
std::string refusals_text(const Validation& validation, const Terminal& terminal) {
  std::map<std::string, std::size_t> counts;
  for (const Refusal& r : validation.refused) ++counts[r.why];
  std::vector<std::pair<std::string, std::size_t>> reasons(counts.begin(), counts.end());
  std::stable_sort(reasons.begin(), reasons.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  constexpr std::size_t kShown = 20;
  std::string text;
  for (std::size_t i = 0; i < std::min(kShown, reasons.size()); ++i) {
    text += wrapped(fmt::format("  {} x {}", reasons[i].second, reasons[i].first), terminal.width, 6) + "\n";
  }
  if (reasons.size() > kShown) text += "  " + terminal.words("and {} more reasons", reasons.size() - kShown) + "\n";
  return text.empty() ? "" : styled(terminal.words("refused"), Style::faint, terminal) + "\n" + text;
}

std::string failures_text(const Validation& validation, const Terminal& terminal) {
  std::string text;
  for (const Comparison& c : validation.cases) {
    if (c.failure.empty()) continue;
    text +=
        styled(wrapped(terminal.words("{} failed: {}", c.name, c.failure), terminal.width, 2), Style::bad, terminal) +
        "\n";
  }
  return text;
}

}  // namespace

std::string validation_table(const Validation& validation, const Terminal& terminal, bool every_case) {
  std::string text;
  for (const std::string& section :
       {summary_text(validation, terminal), sources_text(validation, terminal),
        cases_text(validation, terminal, every_case), wrong_fates_text(validation, terminal),
        failures_text(validation, terminal), refusals_text(validation, terminal)}) {
    if (!section.empty()) text += (text.empty() ? "" : "\n") + section;
  }
  return text;
}

}  // namespace foretrain::report
