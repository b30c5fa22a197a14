#include <algorithm>
#include <chrono>
#include <mutex>
#include <optional>
#include <set>
#include <stdexcept>
#include <tuple>

#include "sim/base/parallel.h"
#include "sim/planner/bounds.h"
#include "sim/planner/bounds_pool.h"
#include "sim/planner/frontier.h"
#include "sim/planner/planner.h"
#include "sim/planner/space.h"
#include "sim/planner/trial.h"

namespace foretrain {
namespace {

// Plans simulated between two looks at what has been found; not the number of threads, so that the answer does not
// depend on it.
constexpr std::size_t kWave = 16;
// Plans that do not fit and are simulated to find the nearest.
constexpr std::size_t kMostMisses = 48;
// Faster plans than the one that is compared with are counted up to so many: beyond, the plan is not a good one, and
// the exact number takes minutes.
constexpr std::int64_t kMostCounted = 512;

struct FoundPlan {
  PlanChoice choice;
  Time step_time;
};

bool faster(const FoundPlan& a, const FoundPlan& b) {
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

class Stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count(); }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

class Search {
 public:
  Search(const Case& subject, const Environment& environment, const PlannerOptions& options, double memory_share)
      : memory_share_(memory_share),
        case_(with_memory(as_simulated(subject, environment), memory_share)),
        environment_(environment),
        options_(options),
        trials_(case_, environment),
        space_(case_, trials_.cluster(), environment.collectives),
        bounds_(case_, trials_.cluster(), environment.collectives, environment.hosts) {}

  const PlanSpace& space() const { return space_; }

  PlanAnswer answer(const Case& subject) {
    PlanAnswer answer;
    answer.subject = subject;
    answer.memory_share = memory_share_;
    if (options_.own != nullptr) {
      answer.own.emplace().plan.report = full_report(*options_.own);
      to_beat_ = answer.own->plan.report.step_time;
    }
    const Stopwatch judging;
    bound_all();
    answer.seconds.judging = judging.seconds();
    const Stopwatch simulating;
    simulate_promising();
    answer.seconds.simulating = simulating.seconds();
    answer.nearest_miss = nearest_miss();
    answer.counts = counts_;
    answer.complete = !stopped();
    answer.best.resize(found_.size());
    parallel_for(found_.size(), options_.threads, [&](std::size_t i) {
      Case chosen = subject;
      chosen.open_plan.reset();
      chosen.micro_batch_auto = false;
      chosen.plan = *space_.plan_of(found_[i].choice);
      answer.best[i].report = full_report(chosen);
    });
    for (RankedPlan& ranked : answer.best) compare(ranked, answer.best.front());
    if (answer.own) {
      answer.own->faster = faster_;
      answer.own->at_least = !counts_faster();
      if (!answer.best.empty()) compare(answer.own->plan, answer.best.front());
    }
    return answer;
  }

 private:
  static Case with_memory(Case c, double share) {
    c.cluster.gpu.memory *= share;
    for (Gpu& gpu : c.cluster.other_gpus) gpu.memory *= share;
    return c;
  }

  CaseReport full_report(const Case& chosen) const {
    return simulate_case(chosen, environment_, {.with_advice = false, .with_elasticity = options_.with_elasticity});
  }

  bool stopped() const { return options_.stop != nullptr && *options_.stop; }

  void tell(SearchProgress::Phase phase, double share) const {
    if (!options_.progress) return;
    options_.progress({phase, share, counts_, found_.empty() ? Time::zero() : found_.front().step_time});
  }

  // Every legal plan goes to those worth simulating, in ascending order of their bounds, or to those that do not fit.
  void bound_all() {
    std::vector<Judged> judged(space_.families());
    std::vector<std::size_t> first;  // families that share the time of kernels are bounded by one thread
    for (std::size_t family = 0; family < space_.families(); ++family) {
      if (!space_.continues(family)) first.push_back(family);
    }
    std::mutex telling;
    std::size_t done = 0;
    parallel_for(first.size(), options_.threads, [&](std::size_t group) {
      const BoundsPool::Borrowed bounds = bounds_.borrow();
      Balancer balancer(trials_.cluster(), environment_.collectives);
      for (std::size_t family = first[group]; family == first[group] || space_.continues(family); ++family) {
        if (stopped()) return;
        judged[family] = judge(family, *bounds, balancer);
      }
      const std::lock_guard one_at_a_time(telling);
      tell(SearchProgress::Phase::judging, static_cast<double>(++done) / static_cast<double>(first.size()));
    });
    for (Judged& family : judged) {
      frontier_.add(family.open);
      misses_.insert(misses_.end(), family.misses.begin(), family.misses.end());
      counts_.legal += static_cast<std::int64_t>(family.open.size() + family.beyond_memory);
      counts_.beyond_memory += static_cast<std::int64_t>(family.beyond_memory);
    }
    frontier_.sort();
  }

  struct Judged {
    std::vector<Candidate> open, misses;
    std::size_t beyond_memory = 0;
  };

  Judged judge(std::size_t family, PlanBounds& bounds, Balancer& balancer) const {
    Judged judged;
    std::set<PlanChoice> fit_with_recompute;
    space_.for_each(family, balancer, [&](const PlanChoice& choice, const Plan& plan) {
      if (trials_.too_long(plan)) {
        judged.open.push_back({choice, Time::max(), Bytes{}});
        return;
      }
      const Bytes missing = bounds.missing_memory(plan);
      if (missing <= Bytes{}) {
        judged.open.push_back({choice, bound_of(bounds, plan), Bytes{}});
        if (choice.recompute == Recompute::Mode::full) fit_with_recompute.insert(choice);
        return;
      }
      judged.misses.push_back({choice, Time::zero(), missing});
      PlanChoice recomputed = choice;
      recomputed.recompute = Recompute::Mode::full;
      if (space_.recompute_levels(choice, plan) > 0 && fit_with_recompute.contains(recomputed)) {
        judged.open.push_back({choice, bound_of(bounds, plan), missing, true});
      } else {
        ++judged.beyond_memory;
      }
    });
    return judged;
  }

  bool counts_faster() const { return faster_ < kMostCounted; }

  // The longest step that is of interest: of a plan that may be among the best, or faster than the one that is compared
  // with.
  Time of_interest() const {
    if (found_.size() < options_.top) return Time::max();
    return counts_faster() ? std::max(found_.back().step_time, to_beat_) : found_.back().step_time;
  }

  // At least a few, so that there is a best so far.
  void simulate_promising() {
    std::size_t taken = 0;
    while (!frontier_.empty() && frontier_.bound() <= of_interest() && !(stopped() && counts_.simulated > 0)) {
      const std::vector<Candidate> wave = frontier_.take(kWave);
      std::vector<Tried> tried(wave.size());
      const Time until = of_interest();
      parallel_for(wave.size(), options_.threads, [&](std::size_t i) { tried[i] = try_out(wave[i], until); });
      for (std::size_t i = 0; i < wave.size(); ++i) take(wave[i], tried[i]);
      std::sort(found_.begin(), found_.end(), faster);
      if (found_.size() > options_.top) found_.resize(options_.top);
      taken += wave.size();
      if (!options_.progress) continue;
      const double left = static_cast<double>(frontier_.within(of_interest()));
      tell(SearchProgress::Phase::simulating, static_cast<double>(taken) / (static_cast<double>(taken) + left));
    }
    counts_.too_slow = counts_.legal - counts_.beyond_memory - counts_.simulated;
  }

  // What became of a candidate, and the plan that it gives way to.
  struct Tried {
    Trial trial;
    std::optional<Candidate> instead;
  };

  Tried try_out(const Candidate& candidate, Time until) {
    if (candidate.too_large) return {{}, fitting(candidate)};
    const Plan plan = *space_.plan_of(candidate.choice);
    Tried tried{trials_.simulate(plan, false, until), {}};
    const Trial& trial = tried.trial;
    if (trial.missing.value > 0) {
      tried.instead = with_more_recompute(candidate, plan);
    } else if (trial.host_is_full) {
      const auto more = space_.with_more_on_drives(candidate.choice);
      if (more && space_.plan_of(*more)) tried.instead = Candidate{*more, candidate.bound, {}};
    }
    if (tried.instead) tried.instead->simulated = true;
    return tried;
  }

  // A plan that is too large as it stands, with so few layers recomputed that it may fit.
  std::optional<Candidate> fitting(const Candidate& candidate) {
    const BoundsPool::Borrowed bounds = bounds_.borrow();
    const Plan plain = *space_.plan_of(candidate.choice);
    const auto at = [&](std::int64_t level) {
      return space_.plan_of(PlanSpace::at_recompute_level(candidate.choice, plain, level));
    };
    const auto fits = [&](std::int64_t level) {
      const std::optional<Plan> plan = at(level);
      return plan && bounds->missing_memory(*plan) <= Bytes{};
    };
    std::int64_t too_few = 0, enough = space_.recompute_levels(candidate.choice, plain);
    if (!fits(enough)) return std::nullopt;
    while (enough - too_few > 1) {
      const std::int64_t middle = (too_few + enough) / 2;
      (fits(middle) ? enough : too_few) = middle;
    }
    return Candidate{PlanSpace::at_recompute_level(candidate.choice, plain, enough),
                     std::max(candidate.bound, bound_of(*bounds, *at(enough))),
                     {}};
  }

  // One more layer of every chunk.
  std::optional<Candidate> with_more_recompute(const Candidate& candidate, const Plan& plan) {
    PlanChoice plain = candidate.choice;
    if (plain.recompute == Recompute::Mode::blocks) plain.recompute = Recompute::Mode::none;
    const std::int64_t level = plain.blocks / plan.vpp + 1;
    if (level > space_.recompute_levels(plain, plan)) return std::nullopt;
    const PlanChoice more = PlanSpace::at_recompute_level(plain, plan, level);
    const std::optional<Plan> changed = space_.plan_of(more);
    if (!changed) return std::nullopt;
    return Candidate{more, std::max(candidate.bound, bound_of(*bounds_.borrow(), *changed)), {}};
  }

  void take(const Candidate& candidate, const Tried& tried) {
    if (tried.instead) {
      Candidate instead = *tried.instead;
      instead.simulated = instead.simulated || candidate.simulated;
      frontier_.put_back(std::move(instead));
    }
    if (candidate.too_large) {
      counts_.beyond_memory += !tried.instead;
      return;
    }
    counts_.simulated += !candidate.simulated;
    const Trial& trial = tried.trial;
    if (trial.too_slow) return;
    if (trial.fits()) {
      found_.push_back({candidate.choice, trial.step_time});
      faster_ += trial.step_time < to_beat_;
      return;
    }
    counts_.did_not_fit += !tried.instead;
    if (trial.step_time < Time::max() && candidate.choice.blocks == 0) {
      misses_.push_back({candidate.choice, candidate.bound, trial.missing});
    }
  }

  std::optional<NearestMiss> nearest_miss() {
    // Less than a percent is not worth another machine.
    const Time best = found_.empty() ? Time::max() : Time::from_seconds(0.99 * found_.front().step_time.seconds());
    std::sort(misses_.begin(), misses_.end(), [](const Candidate& a, const Candidate& b) {
      return std::tie(a.missing, a.choice) < std::tie(b.missing, b.choice);
    });
    std::optional<NearestMiss> nearest;
    std::size_t simulated = 0;
    const BoundsPool::Borrowed bounds = bounds_.borrow();
    for (const Candidate& candidate : misses_) {
      if (stopped() || simulated == kMostMisses) break;
      if (nearest && candidate.missing >= nearest->missing) break;
      const Plan plan = *space_.plan_of(candidate.choice);
      if ((candidate.bound > Time::zero() ? candidate.bound : bound_of(*bounds, plan)) >= best) continue;
      ++simulated;
      const Trial trial = trials_.simulate(plan, true, best);
      if (trial.step_time >= best || (nearest && trial.missing >= nearest->missing)) continue;
      nearest = NearestMiss{plan, trial.missing, trial.step_time};
    }
    return nearest;
  }

  static void compare(RankedPlan& ranked, const RankedPlan& best) {
    for (std::size_t cause = 0; cause < kCauses; ++cause) {
      const Time mine = ranked.report.breakdown.parts[cause], its = best.report.breakdown.parts[cause];
      if (mine - its <= ranked.more) continue;
      ranked.more = mine - its;
      ranked.slower_by = static_cast<Cause>(cause);
    }
  }

  double memory_share_;
  Case case_;
  const Environment& environment_;
  const PlannerOptions& options_;
  Trials trials_;
  PlanSpace space_;
  BoundsPool bounds_;
  Time to_beat_;             // of the plan that is compared with; zero: none
  std::int64_t faster_ = 0;  // than that one
  SearchCounts counts_;
  Frontier frontier_;
  std::vector<Candidate> misses_;  // plans that do not fit
  std::vector<FoundPlan> found_;
};

}  // namespace

std::optional<PlanAnswer> find_plans(const Case& subject, const Environment& environment, const PlannerOptions& options,
                                     Diagnostics& diagnostics) {
  const auto stopped = [&options] { return options.stop != nullptr && *options.stop; };
  std::optional<Search> search(std::in_place, subject, environment, options, options.memory_share);
  if (search->space().families() == 0) {
    const SourcePosition position = subject.open_plan ? subject.open_plan->position : subject.position;
    diagnostics.error(position, message("no plan is legal for case '{}'; for instance:", subject.name));
    diagnostics.append(search->space().refusal());
    return std::nullopt;
  }
  PlanAnswer answer = search->answer(subject);
  if (answer.best.empty() && options.memory_share < 1.0 && !stopped()) {
    answer = search.emplace(subject, environment, options, 1.0).answer(subject);
  }
  if (answer.counts.legal == 0 && answer.complete) {
    diagnostics.error(subject.position, message("no plan is legal for case '{}': no micro-batch divides the batch "
                                                "of a replica with what is fixed of the plan",
                                                subject.name));
    return std::nullopt;
  }
  return answer;
}

}  // namespace foretrain
