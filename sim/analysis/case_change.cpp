#include "sim/analysis/case_change.h"

#include <algorithm>
#include <stdexcept>

#include "sim/base/parallel.h"
#include "sim/plan/plan_request.h"

namespace foretrain {
namespace {

// Until gradients are reduced the backward pass is not over; a collective inside a layer belongs to the pass before it.
void add_passes(Outcome& outcome, const CaseReport& r) {
  Time reduced;
  for (std::size_t i = 0; i < r.step.tasks.size(); ++i) {
    if (r.step.tasks[i].kind == TaskKind::gradient_reduce) reduced = std::max(reduced, r.schedule.end[i]);
  }
  const StepWindows windows = step_windows(r.step, r.schedule);
  reduced = std::min(reduced, windows.begin.front() + windows.length);
  Time* part = &outcome.forward;
  Time now = windows.begin.front();
  for (const engine::TaskId task : r.step.compute_tasks.front()) {
    const TaskKind kind = r.step.tasks[task.index()].kind;
    if (kind == TaskKind::optimizer || kind == TaskKind::step_overhead) break;
    if (is_pass(kind)) part = kind == TaskKind::forward ? &outcome.forward : &outcome.backward;
    *part += r.schedule.end[task.index()] - now;
    now = r.schedule.end[task.index()];
  }
  if (reduced > now) outcome.backward += reduced - now;
  outcome.rest = r.step_time - outcome.forward - outcome.backward;
}

}  // namespace

std::optional<Case> if_legal(Case changed) {
  Diagnostics ignored;
  const auto plan = resolve_plan(as_request(changed.plan, changed.model), changed.model, changed.train, changed.cluster,
                                 changed.software, ignored);
  if (!plan) return std::nullopt;
  changed.plan = *plan;
  return changed;
}

CaseChange change_of_case(std::string name, Message what, std::function<bool(Case&)> edit) {
  return {std::move(name), std::move(what), [edit = std::move(edit)](const Setup& setup) -> std::optional<Setup> {
            Case changed = setup.subject;
            if (!edit(changed)) return std::nullopt;
            std::optional<Case> legal = if_legal(std::move(changed));
            if (!legal) return std::nullopt;
            return Setup{std::move(*legal), setup.environment};
          }};
}

CaseChange change_as_profile(std::string name, Message what, std::string profile,
                             std::function<bool(Software&, const Software&)> edit) {
  return {std::move(name), std::move(what),
          [profile = std::move(profile), edit = std::move(edit)](const Setup& setup) -> std::optional<Setup> {
            Diagnostics ignored;
            const auto other = load_software(setup.environment.data.path + "/configs/software", profile, {}, ignored);
            Setup changed = setup;
            if (!other || !edit(changed.subject.software, *other)) return std::nullopt;
            return changed;
          }};
}

CaseChange change_of_rate(std::string name, Message what, HardwareRate rate, double factor) {
  return {std::move(name), std::move(what), [rate, factor](const Setup& setup) -> std::optional<Setup> {
            if (!matters(setup.subject, rate)) return std::nullopt;
            return with_faster(setup, rate, factor);
          }};
}

Outcome outcome_of(const CaseReport& r) {
  Outcome outcome;
  outcome.step_time = r.step_time;
  outcome.tokens_per_second = r.tokens_per_second;
  outcome.fits = r.fits;
  if (r.fullest < r.memory.size()) {
    outcome.needed = r.memory[r.fullest].needed;
    outcome.allocated = r.memory[r.fullest].figures.allocated;
  }
  if (r.step.compute_tasks.empty()) return outcome;
  add_passes(outcome, r);
  return outcome;
}

std::vector<TriedChange> try_changes(const std::vector<CaseChange>& changes, const Setup& setup, int threads) {
  std::vector<std::optional<TriedChange>> tried(changes.size());
  parallel_for(changes.size(), threads, [&](std::size_t i) {
    const std::optional<Setup> changed = changes[i].apply(setup);
    if (!changed) return;
    try {
      const CaseReport report =
          simulate_case(changed->subject, changed->environment,
                        {.folding = Communicators::Folding::symmetric, .with_advice = false, .with_elasticity = false});
      tried[i] = TriedChange{changes[i], changed->subject, outcome_of(report)};
    } catch (const std::overflow_error&) {
    } catch (const std::domain_error&) {
    }
  });
  std::vector<TriedChange> all;
  for (std::optional<TriedChange>& one : tried) {
    if (one) all.push_back(std::move(*one));
  }
  return all;
}

}  // namespace foretrain
