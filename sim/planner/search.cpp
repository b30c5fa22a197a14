#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <tuple>

#include "sim/base/parallel.h"
#include "sim/planner/bounds.h"
#include "sim/planner/planner.h"
#include "sim/planner/space.h"

namespace foretrain {
namespace {

// Plans simulated between two looks at what has been found; not the number of threads, so that the answer does not
// depend on it.
constexpr std::size_t kWave = 16;
// Plans that do not fit and are simulated to find the nearest.
constexpr std::size_t kMostMisses = 48;

struct Candidate {
  PlanChoice choice;
  Time bound;
  Bytes missing;  // at least
};

// A simulated plan.
struct Trial {
  PlanChoice choice;
  Time step_time;
  Bytes missing;
};

bool faster(const Trial& a, const Trial& b) {
  return std::tie(a.step_time, a.choice) < std::tie(b.step_time, b.choice);
}

// A step of months is as good as none.
Time bound_of(PlanBounds& bounds, const Plan& plan) {
  try {
    return bounds.step_time(plan);
  } catch (const std::overflow_error&) {
  } catch (const std::domain_error&) {
  }
  return Time::max();
}

class Search {
 public:
  Search(const Case& subject, const Environment& environment, const PlannerOptions& options)
      : case_(as_simulated(subject, environment)),
        environment_(environment),
        options_(options),
        space_(case_),
        cluster_(case_.cluster, environment.link_rates) {}

  const PlanSpace& space() const { return space_; }

  PlanAnswer answer(const Case& subject) {
    bound_all();
    simulate_promising();
    PlanAnswer answer;
    answer.subject = subject;
    answer.nearest_miss = nearest_miss();
    answer.counts = counts_;
    answer.complete = !stopped();
    answer.best.resize(found_.size());
    parallel_for(found_.size(), options_.threads, [&](std::size_t i) {
      Case chosen = subject;
      chosen.open_plan.reset();
      chosen.micro_batch_auto = false;
      chosen.plan = *space_.plan_of(found_[i].choice);
      answer.best[i].report = simulate_case(chosen, environment_, {.with_advice = false});
    });
    for (RankedPlan& ranked : answer.best) compare(ranked, answer.best.front());
    return answer;
  }

 private:
  bool stopped() const { return options_.stop != nullptr && *options_.stop; }

  void tell() const {
    if (options_.progress) options_.progress(counts_, found_.empty() ? Time::zero() : found_.front().step_time);
  }

  // Every legal plan goes to those worth simulating, in ascending order of their bounds, or to those that do not fit.
  void bound_all() {
    const Bytes capacity = case_.cluster.gpu.memory;
    std::vector<std::vector<Candidate>> open(space_.families()), full(space_.families());
    std::vector<std::size_t> first;  // families that share the time of kernels are bounded by one thread
    for (std::size_t family = 0; family < space_.families(); ++family) {
      if (!space_.continues(family)) first.push_back(family);
    }
    parallel_for(first.size(), options_.threads, [&](std::size_t group) {
      PlanBounds bounds(case_, cluster_, environment_.collectives);
      for (std::size_t family = first[group]; family == first[group] || space_.continues(family); ++family) {
        if (stopped()) return;
        space_.for_each(family, [&](const PlanChoice& choice, const Plan& plan) {
          if (too_long(plan)) {
            open[family].push_back({choice, Time::max(), Bytes{}});
            return;
          }
          const Bytes needed = bounds.memory(plan);
          const bool fits = needed <= capacity;
          (fits ? open : full)[family].push_back(
              {choice, fits ? bound_of(bounds, plan) : Time::zero(), fits ? Bytes{} : needed - capacity});
        });
      }
    });
    for (std::size_t family = 0; family < space_.families(); ++family) {
      promising_.insert(promising_.end(), open[family].begin(), open[family].end());
      beyond_memory_.insert(beyond_memory_.end(), full[family].begin(), full[family].end());
    }
    counts_.legal = static_cast<std::int64_t>(promising_.size() + beyond_memory_.size());
    counts_.beyond_memory = static_cast<std::int64_t>(beyond_memory_.size());
    std::sort(promising_.begin(), promising_.end(), [](const Candidate& a, const Candidate& b) {
      return std::tie(a.bound, a.choice) < std::tie(b.bound, b.choice);
    });
    tell();
  }

  // More passes in a step than are simulated, as simulate_case() says.
  bool too_long(const Plan& plan) const { return layer_passes(plan, case_.model, case_.train) > kMostLayerPasses; }

  Trial simulate(const PlanChoice& choice, bool even_if_it_does_not_fit) const {
    try {
      return simulate_any(choice, even_if_it_does_not_fit);
    } catch (const std::overflow_error&) {
    } catch (const std::domain_error&) {
    }
    return {choice, Time::max(), {}};
  }

  // Time and memory of one plan. A plan that does not fit is simulated only if its time is wanted.
  Trial simulate_any(const PlanChoice& choice, bool even_if_it_does_not_fit) const {
    Case chosen = case_;
    chosen.open_plan.reset();
    chosen.plan = *space_.plan_of(choice);
    if (too_long(chosen.plan)) return {choice, Time::max(), {}};
    const Step step =
        build_step(chosen, cluster_, environment_.collectives, {Communicators::Folding::symmetric, environment_.hosts});
    Bytes missing;
    for (const StagePeak& peak : memory_peaks(chosen, step)) missing = std::max(missing, peak.needed - peak.capacity);
    if (chosen.plan.offload.any() && chosen.cluster.host.dram) {
      const HostMemory host = host_memory(chosen, step.layouts, host_activation_peaks(chosen, step));
      if (host.parts.total() > *chosen.cluster.host.dram) return {choice, Time::max(), missing};
    }
    if (missing.value > 0 && !even_if_it_does_not_fit) return {choice, Time::zero(), missing};
    auto outcome = engine::simulate(step.graph);
    const auto* schedule = std::get_if<engine::Schedule>(&outcome);
    if (schedule == nullptr) throw std::logic_error("the schedule of a plan deadlocks");
    return {choice, step_windows(step, *schedule).length, missing};
  }

  void simulate_promising() {
    std::size_t next = 0;
    const auto worth_it = [&](const Candidate& candidate) {
      return found_.size() < options_.top || candidate.bound <= found_.back().step_time;
    };
    while (next < promising_.size() && worth_it(promising_[next]) && !stopped()) {
      const std::size_t count = std::min(kWave, promising_.size() - next);
      std::vector<Trial> trials(count);
      parallel_for(count, options_.threads,
                   [&](std::size_t i) { trials[i] = simulate(promising_[next + i].choice, false); });
      for (std::size_t i = 0; i < count; ++i) {
        ++counts_.simulated;
        if (trials[i].step_time == Time::max()) {
          ++counts_.did_not_fit;
        } else if (trials[i].missing.value > 0) {
          ++counts_.did_not_fit;
          beyond_memory_.push_back({trials[i].choice, promising_[next + i].bound, trials[i].missing});
        } else {
          found_.push_back(trials[i]);
        }
      }
      std::sort(found_.begin(), found_.end(), faster);
      if (found_.size() > options_.top) found_.resize(options_.top);
      next += count;
      tell();
    }
    counts_.too_slow = static_cast<std::int64_t>(promising_.size() - next);
  }

  std::optional<NearestMiss> nearest_miss() {
    // Less than a percent is not worth another machine.
    const Time best = found_.empty() ? Time::max() : Time::from_seconds(0.99 * found_.front().step_time.seconds());
    std::sort(beyond_memory_.begin(), beyond_memory_.end(), [](const Candidate& a, const Candidate& b) {
      return std::tie(a.missing, a.choice) < std::tie(b.missing, b.choice);
    });
    std::optional<Trial> nearest;
    std::size_t simulated = 0;
    PlanBounds bounds(case_, cluster_, environment_.collectives);
    for (const Candidate& candidate : beyond_memory_) {
      if (stopped() || simulated == kMostMisses) break;
      if (nearest && candidate.missing >= nearest->missing) break;
      const Time bound =
          candidate.bound > Time::zero() ? candidate.bound : bound_of(bounds, *space_.plan_of(candidate.choice));
      if (bound >= best) continue;
      ++simulated;
      const Trial trial = simulate(candidate.choice, true);
      if (trial.step_time >= best || (nearest && trial.missing >= nearest->missing)) continue;
      nearest = trial;
    }
    if (!nearest) return std::nullopt;
    return NearestMiss{*space_.plan_of(nearest->choice), nearest->missing, nearest->step_time};
  }

  static void compare(RankedPlan& ranked, const RankedPlan& best) {
    for (std::size_t cause = 0; cause < kCauses; ++cause) {
      const Time mine = ranked.report.breakdown.parts[cause], its = best.report.breakdown.parts[cause];
      if (mine - its <= ranked.more) continue;
      ranked.more = mine - its;
      ranked.slower_by = static_cast<Cause>(cause);
    }
  }

  Case case_;
  const Environment& environment_;
  const PlannerOptions& options_;
  PlanSpace space_;
  Cluster cluster_;
  SearchCounts counts_;
  std::vector<Candidate> promising_, beyond_memory_;
  std::vector<Trial> found_;
};

}  // namespace

std::optional<PlanAnswer> find_plans(const Case& subject, const Environment& environment, const PlannerOptions& options,
                                     Diagnostics& diagnostics) {
  if (!subject.cluster.odd_gpus.empty()) {
    diagnostics.error(
        subject.open_plan ? subject.open_plan->position : subject.position,
        fmt::format("case '{}' has GPUs that differ (cluster.overrides or jitter), and plans are looked for "
                    "on like ones; write its plan",
                    subject.name));
    return std::nullopt;
  }
  Search search(subject, environment, options);
  if (search.space().families() == 0) {
    const SourcePosition position = subject.open_plan ? subject.open_plan->position : subject.position;
    diagnostics.error(position, fmt::format("no plan is legal for case '{}'; for instance:", subject.name));
    diagnostics.append(search.space().refusal());
    return std::nullopt;
  }
  PlanAnswer answer = search.answer(subject);
  if (answer.counts.legal == 0 && answer.complete) {
    diagnostics.error(subject.position, fmt::format("no plan is legal for case '{}': no micro-batch divides the batch "
                                                    "of a replica with what is fixed of the plan",
                                                    subject.name));
    return std::nullopt;
  }
  return answer;
}

}  // namespace foretrain
