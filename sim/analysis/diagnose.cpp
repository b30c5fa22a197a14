#include "sim/analysis/diagnose.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace foretrain {
namespace {

// The figures of a log that a simulated set-up has too, worked out for it.
double predicted(LogFigure figure, const CaseReport& as_described, const Outcome& o) {
  const Train& train = as_described.subject.train;
  const double tokens = static_cast<double>(train.global_batch * train.seq_len), step = o.step_time.seconds();
  const double gpus = as_described.subject.plan.gpus(), described = as_described.step_time.seconds();
  switch (figure) {
    case LogFigure::iteration_s:
    case LogFigure::step_s:
      return step;
    case LogFigure::samples_per_s:
      return static_cast<double>(train.global_batch) / step;
    // A log counts what its author thinks is run: the tokens and FLOPs of the description.
    case LogFigure::tokens_per_s:
      return tokens / step;
    case LogFigure::tokens_per_s_per_gpu:
      return tokens / step / gpus;
    case LogFigure::tflops_per_gpu:
      return as_described.model_tflops_per_gpu * described / step;
    case LogFigure::mfu:
      return as_described.mfu * described / step;
    case LogFigure::forward_s:
      return o.forward.seconds();
    case LogFigure::backward_s:
      return o.backward.seconds();
    case LogFigure::optimizer_s:
      return o.rest.seconds();
    case LogFigure::memory_bytes:
      return o.allocated.value;
  }
  return 0;
}

bool of_time(LogFigure figure) { return figure != LogFigure::memory_bytes; }

// The step time that the log states most directly.
std::optional<double> measured_step(const CaseReport& r, const RunLog& log) {
  const Outcome now = outcome_of(r);
  const double step = now.step_time.seconds();
  for (const LogFigure figure : {LogFigure::step_s, LogFigure::iteration_s}) {
    if (log[figure]) return log[figure];
  }
  for (const LogFigure rate : {LogFigure::samples_per_s, LogFigure::tokens_per_s_per_gpu, LogFigure::tokens_per_s,
                               LogFigure::tflops_per_gpu, LogFigure::mfu}) {
    if (log[rate]) return step * predicted(rate, r, now) / *log[rate];
  }
  if (!log[LogFigure::forward_s] || !log[LogFigure::backward_s]) return std::nullopt;
  return *log[LogFigure::forward_s] + *log[LogFigure::backward_s] +
         log[LogFigure::optimizer_s].value_or(now.rest.seconds());
}

// How unlike a run what was measured is: over the parts of the step if the log has them, else over the whole.
double distance_of(const Diagnosis& d, const Outcome& o, double iterations_a_step) {
  const bool parts = std::any_of(d.compared.begin(), d.compared.end(),
                                 [](const auto& c) { return c.figure == LogFigure::backward_s; });
  double sum = 0, weight = 0;
  for (const Diagnosis::Compared& c : d.compared) {
    const bool part =
        c.figure == LogFigure::forward_s || c.figure == LogFigure::backward_s || c.figure == LogFigure::optimizer_s;
    if (!of_time(c.figure) || part != parts) continue;
    const double times = c.figure == LogFigure::iteration_s ? iterations_a_step : 1.0;
    const double simulated = predicted(c.figure, d.report, o);
    if (!(simulated > 0)) continue;
    // A part counts by its share of the measured time: what takes no time says little.
    const double counts = parts ? c.measured : 1.0;
    sum += counts * std::abs(std::log(c.measured * times / simulated));
    weight += counts;
  }
  return weight > 0 ? sum / weight : 0;
}

// The part of the step that takes most time more (or less) than simulated, where the log states parts.
std::optional<Diagnosis::Compared> most_off(const Diagnosis& d) {
  std::optional<Diagnosis::Compared> most;
  for (const Diagnosis::Compared& c : d.compared) {
    const bool part =
        c.figure == LogFigure::forward_s || c.figure == LogFigure::backward_s || c.figure == LogFigure::optimizer_s;
    const auto off = [](const Diagnosis::Compared& x) { return std::abs(x.measured - x.predicted); };
    if (part && (!most || off(c) > off(*most))) most = c;
  }
  return most;
}

// Causes that come clearly nearer than the description.
void keep_nearest(Diagnosis& d) {
  constexpr double kClearly = 0.9;
  std::erase_if(d.causes, [&](const Diagnosis::Cause& c) { return !c.explains && c.distance > kClearly * d.distance; });
  std::stable_sort(d.causes.begin(), d.causes.end(),
                   [](const Diagnosis::Cause& a, const Diagnosis::Cause& b) { return a.distance < b.distance; });
}

void judge_speed(Diagnosis& d, const std::vector<TriedChange>& tried) {
  const double step = d.report.step_time.seconds(), measured = *d.step_s;
  d.finding = measured > d.high_s  ? Diagnosis::Finding::slow
              : measured < d.low_s ? Diagnosis::Finding::fast
                                   : Diagnosis::Finding::normal;
  d.distance = distance_of(d, outcome_of(d.report), 1.0);
  if (d.finding == Diagnosis::Finding::normal) return;
  d.most_off = most_off(d);
  const double low = d.low_s / step, high = d.high_s / step;
  // Within what is normal, as a whole and, on average, in the parts that the log states.
  const auto explains = [&](double with_cause, double seen, double distance) {
    return seen >= with_cause * low && seen <= with_cause * high &&
           distance <= std::max(-std::log(low), std::log(high));
  };
  for (const TriedChange& t : tried) {
    const double with_cause = t.outcome.step_time.seconds();
    const double distance = distance_of(d, t.outcome, 1.0);
    d.causes.push_back({t.change.name, t.change.what, with_cause, t.outcome.needed, distance,
                        explains(with_cause, measured, distance)});
  }
  // A progress bar may count micro-batches.
  const auto iterations = static_cast<double>(d.report.step.micro_batches);
  const bool by_iteration = std::any_of(d.compared.begin(), d.compared.end(),
                                        [](const auto& c) { return c.figure == LogFigure::iteration_s; });
  if (by_iteration && iterations > 1) {
    const double distance = distance_of(d, outcome_of(d.report), iterations);
    d.causes.push_back({"counts-micro-batches",
                        message("the log counts micro-batches: {} iterations are a step", d.report.step.micro_batches),
                        step / iterations, outcome_of(d.report).needed, distance,
                        explains(step, measured * iterations, distance)});
  }
  keep_nearest(d);
}

std::string gib(Bytes bytes, int decimals) { return fmt::format("{:.{}f}", bytes.value / kGiB, decimals); }

// What the numbers of the sentence give away, whatever was run.
void read_sentence(Diagnosis& d) {
  const OutOfMemory& o = *d.out_of_memory;
  if (o.capacity && std::abs(o.capacity->value / d.report.capacity.value - 1) > 0.05) {
    d.memory_notes.push_back(message("the GPU of the message has {} GiB, the one of the scenario {} GiB",
                                     gib(*o.capacity, 1), gib(d.report.capacity, 1)));
  }
  if (o.reserved_unallocated && *o.reserved_unallocated >= o.tried) {
    d.memory_notes.push_back(
        message("fragmentation: {} GiB are reserved but not in use, more than the {} GiB that were asked for; "
                "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True lets them be used",
                gib(*o.reserved_unallocated, 2), gib(o.tried, 2)));
  }
  if (o.capacity && o.free && o.in_use) {
    const Bytes others = *o.capacity - *o.free - *o.in_use;
    if (others.value > kGiB) {
      d.memory_notes.push_back(message("another process holds {} GiB of this GPU", gib(others, 1)));
    }
  }
  if (o.allocated && *o.allocated + o.tried < outcome_of(d.report).allocated * 0.5) {
    d.memory_notes.push_back(
        message("it failed with less than half of what a step needs: probably while the model was loaded "
                "or the optimizer was made, not in a pass"));
  }
}

void judge_memory(Diagnosis& d, const std::vector<TriedChange>& tried) {
  d.finding = d.report.fits ? Diagnosis::Finding::should_fit : Diagnosis::Finding::fits_not;
  read_sentence(d);
  const OutOfMemory& o = *d.out_of_memory;
  const Bytes wanted = o.allocated ? *o.allocated + o.tried : o.capacity.value_or(d.report.capacity);
  const auto distance = [&](Bytes allocated) { return std::abs(std::log(wanted / allocated)); };
  d.distance = distance(outcome_of(d.report).allocated);
  if (!d.report.fits) return;
  for (const TriedChange& t : tried) {
    if (t.outcome.fits) continue;
    d.causes.push_back({t.change.name, t.change.what, t.outcome.step_time.seconds(), t.outcome.needed,
                        distance(t.outcome.allocated), true});
  }
  keep_nearest(d);
}

}  // namespace

Diagnosis diagnose(const Case& subject, const CaseReport& report, const RunLog& log, const Environment& environment,
                   int threads) {
  Diagnosis d;
  d.report = report;
  d.low_s = d.high_s = report.step_time.seconds();
  if (report.error_bar) {
    d.low_s = report.error_bar->low_s;
    d.high_s = report.error_bar->high_s;
  }
  d.out_of_memory = log.out_of_memory;
  const Outcome now = outcome_of(report);
  for (std::size_t i = 0; i < kLogFigures; ++i) {
    const auto figure = static_cast<LogFigure>(i);
    if (log[figure]) d.compared.push_back({figure, *log[figure], predicted(figure, report, now)});
  }
  d.step_s = measured_step(report, log);
  if (!d.step_s && !d.out_of_memory) return d;
  Case asked = subject;
  asked.plan.micro_batch = report.subject.plan.micro_batch;  // what `auto` found
  asked.micro_batch_auto = false;
  const std::vector<TriedChange> tried = try_changes(known_causes(), {asked, environment}, threads);
  if (d.out_of_memory) {
    judge_memory(d, tried);
  } else {
    judge_speed(d, tried);
  }
  return d;
}

}  // namespace foretrain
