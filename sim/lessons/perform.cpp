#include <algorithm>
#include <array>
#include <limits>
#include <new>
#include <stdexcept>

#include "sim/base/parallel.h"
#include "sim/config/quote.h"
#include "sim/lessons/lesson.h"

namespace foretrain {
namespace {

// The figures of some cases; nothing after reporting those that would take days or gigabytes.
std::vector<Figures> simulated(const std::vector<const Case*>& cases, const SimulateFigures& simulate, int threads,
                               Diagnostics& diagnostics) {
  std::vector<Figures> figures(cases.size());
  std::vector<char> refused(cases.size());
  parallel_for(cases.size(), threads, [&](std::size_t i) {
    try {
      figures[i] = simulate(*cases[i]);
    } catch (const std::overflow_error&) {
      refused[i] = 1;
    } catch (const std::domain_error&) {
      refused[i] = 1;
    } catch (const std::bad_alloc&) {
      refused[i] = 1;
    }
  });
  for (std::size_t i = 0; i < cases.size(); ++i) {
    if (refused[i] == 0) continue;
    diagnostics.error(cases[i]->position,
                      message("{} is out of all proportion; use a smaller batch", config::in_quotes(cases[i]->name)));
  }
  return figures;
}

const char* memory_metric(Measured::MemoryKind kind) {
  switch (kind) {
    case Measured::MemoryKind::allocated:
      return "memory.allocated_bytes";
    case Measured::MemoryKind::reserved:
      return "memory.reserved_bytes";
    case Measured::MemoryKind::device:
      return "memory.device_bytes";
  }
  return "memory.device_bytes";
}

PerformedStep performed_step(const LessonStep& step, std::span<const Figures> of_cases, Diagnostics& diagnostics) {
  PerformedStep result{&step, {}, {}};
  for (std::size_t i = 0; i < of_cases.size(); ++i) {
    std::vector<double>& row = result.figures.emplace_back();
    for (const LessonFigure& shown : step.figures) {
      Check figure = shown.figure;
      std::vector<const Figures*> compared = {&of_cases[i]};
      if (figure.kind == Check::Kind::ratio) {
        const auto other = std::find(step.rows.begin(), step.rows.end(), figure.cases.front()) - step.rows.begin();
        compared.push_back(&of_cases[static_cast<std::size_t>(other) * step.width() + i % step.width()]);
        figure.cases.push_back(figure.cases.front());
      } else {
        figure.cases = {step.cases[i].name};
      }
      const auto outcome = evaluate(figure, compared, 0, diagnostics);
      row.push_back(outcome ? outcome->figure : 0);
    }
  }
  for (const Check& check : step.checks) {
    std::vector<const Figures*> compared;
    for (const std::string& name : check.cases) {
      const auto found =
          std::find_if(step.cases.begin(), step.cases.end(), [&](const Case& c) { return c.name == name; });
      compared.push_back(&of_cases[static_cast<std::size_t>(found - step.cases.begin())]);
    }
    result.checks.push_back(evaluate(check, compared, 0, diagnostics).value_or(CheckOutcome{}));
  }
  return result;
}

constexpr std::array<std::string_view, 18> kWhatIfFigures = {"step_time_s",
                                                             "tokens_per_s",
                                                             "mfu",
                                                             "memory.gpu_peak_bytes",
                                                             "memory.gpu_capacity_bytes",
                                                             "fits",
                                                             "breakdown_s.compute",
                                                             "breakdown_s.launch",
                                                             "breakdown_s.tp_comm",
                                                             "breakdown_s.cp_comm",
                                                             "breakdown_s.ep_comm",
                                                             "breakdown_s.dp_comm",
                                                             "breakdown_s.zero_comm",
                                                             "breakdown_s.pp_comm",
                                                             "breakdown_s.bubble",
                                                             "breakdown_s.offload",
                                                             "breakdown_s.optimizer",
                                                             "breakdown_s.other"};

}  // namespace

std::span<const std::string_view> what_if_figures() { return kWhatIfFigures; }

std::optional<Explored> explore(const WhatIf& what_if, const SimulateFigures& simulate, int threads,
                                Diagnostics& diagnostics) {
  const int errors_before = diagnostics.error_count();
  std::vector<const Case*> cases;
  for (const Case& c : what_if.cases) cases.push_back(&c);
  Explored explored;
  for (const Figures& figures : simulated(cases, simulate, threads, diagnostics)) {
    std::vector<double>& point = explored.emplace_back();
    for (const std::string_view name : kWhatIfFigures) {
      const auto found = figures.find(name);
      point.push_back(found == figures.end() ? std::numeric_limits<double>::quiet_NaN() : found->second);
    }
  }
  if (diagnostics.error_count() > errors_before) return std::nullopt;
  return explored;
}

std::optional<PerformedLesson> perform(const Lesson& lesson, const SimulateFigures& simulate, int threads,
                                       Diagnostics& diagnostics) {
  const int errors_before = diagnostics.error_count();
  std::vector<const Case*> cases;
  for (const LessonStep& step : lesson.steps) {
    for (const Case& c : step.cases) cases.push_back(&c);
  }
  for (const LessonRun& run : lesson.measured) cases.push_back(&run.subject);
  const std::vector<Figures> figures = simulated(cases, simulate, threads, diagnostics);
  if (diagnostics.error_count() > errors_before) return std::nullopt;

  PerformedLesson result{&lesson, {}, {}};
  std::span<const Figures> rest = figures;
  for (const LessonStep& step : lesson.steps) {
    result.steps.push_back(performed_step(step, rest.first(step.cases.size()), diagnostics));
    rest = rest.subspan(step.cases.size());
  }
  for (std::size_t i = 0; i < rest.size(); ++i) {
    const std::string memory = memory_metric(lesson.measured[i].measured.memory_kind);
    result.predictions.push_back({rest[i].at("step_time_s"), rest[i].at(memory)});
  }
  if (diagnostics.error_count() > errors_before) return std::nullopt;
  return result;
}

}  // namespace foretrain
