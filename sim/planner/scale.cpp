#include "sim/planner/scale.h"

#include <stdexcept>

#include "sim/planner/why_not.h"

namespace foretrain {
namespace {

// The case on so many GPUs, without a plan yet. nullopt (and why) if the machine or the batch does not divide.
std::optional<Case> resized(const Case& subject, int gpus, bool weak, Message& why_not) {
  Case c = subject;
  const int per_node = c.cluster.gpus_per_node;
  if (gpus > per_node && gpus % per_node != 0) {
    why_not = message("{} GPUs are no whole nodes of {}", gpus, per_node);
  } else if (gpus > per_node && c.cluster.nics == 0) {
    why_not = message("the node has no NICs to reach others");
  } else if (weak && c.train.global_batch * gpus % subject.cluster.gpus != 0) {
    why_not = message("global_batch {} does not divide over {} GPUs", c.train.global_batch, subject.cluster.gpus);
  }
  if (!why_not.empty()) return std::nullopt;
  c.cluster.gpus = gpus;
  if (weak) c.train.global_batch = c.train.global_batch * gpus / subject.cluster.gpus;
  return c;
}

void choose_plan(Case& c, const Environment& environment, const PlannerOptions& search, ScalePoint& point) {
  Diagnostics said;
  if (c.open_plan->automatic) {
    PlannerOptions best = search;
    best.top = 1;
    const auto answer = find_plans(c, environment, best, said);
    if (!answer) {
      point.why_not = why_no_plan(said);
    } else if (answer->best.empty()) {
      point.why_not =
          answer->complete ? message("no plan fits") : message("no plan was found before the search was stopped");
    } else {
      point.report = answer->best.front().report;
    }
    point.complete = !answer || answer->complete;
    return;
  }
  PlanRequest request = *c.open_plan;
  request.dp.reset();
  const auto plan = resolve_plan(request, c.model, c.train, c.cluster, c.software, said);
  if (!plan) {
    point.why_not = first_error(said);
    return;
  }
  c.plan = *plan;
  c.micro_batch_auto = !request.micro_batch;
  c.open_plan.reset();
  try {
    point.report = simulate_case(c, environment, {.with_advice = false, .with_elasticity = search.with_elasticity});
  } catch (const std::overflow_error& e) {
    point.why_not = std::string(e.what());
  }
}

// Seconds that a GPU spends on a sequence.
double per_sequence(const CaseReport& r, Time part) {
  return part.seconds() * r.subject.plan.gpus() / static_cast<double>(r.subject.train.global_batch);
}

void compare(ScalePoint& point, const CaseReport& base) {
  const CaseReport& r = *point.report;
  point.efficiency = r.tokens_per_second_per_gpu / base.tokens_per_second_per_gpu;
  double most = 0;
  for (std::size_t cause = 0; cause < kCauses; ++cause) {
    const double more = per_sequence(r, r.breakdown.parts[cause]) - per_sequence(base, base.breakdown.parts[cause]);
    if (more <= most) continue;
    most = more;
    point.bent_by = static_cast<Cause>(cause);
  }
  point.bent_share = most / per_sequence(r, r.step_time);
}

}  // namespace

std::vector<ScalePoint> scale(const Case& subject, const Environment& environment, const ScaleOptions& options) {
  std::vector<ScalePoint> points;
  std::optional<std::size_t> base;
  PlannerOptions search = options.search;
  for (int gpus : options.gpus) {
    ScalePoint& point = points.emplace_back();
    point.gpus = gpus;
    if (search.stop != nullptr && *search.stop && points.size() > 1) {
      point.why_not = message("not looked at: stopped before");
      point.complete = false;
      continue;
    }
    const auto tell = [&options, gpus, before = points.size() - 1](double share) {
      const double done = (static_cast<double>(before) + share) / static_cast<double>(options.gpus.size());
      if (options.progress) options.progress(gpus, done);
    };
    tell(0);
    search.progress = [&tell](const SearchProgress& at) {
      tell(at.phase == SearchProgress::Phase::judging ? 0.5 * at.share : 0.5 + 0.5 * at.share);
    };
    if (auto c = resized(subject, gpus, options.weak, point.why_not)) {
      choose_plan(*c, environment, search, point);
    }
    if (!point.report) continue;
    if (!base) base = points.size() - 1;
    compare(points.back(), *points[*base].report);
  }
  return points;
}

}  // namespace foretrain
