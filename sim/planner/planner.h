#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "sim/analysis/case_report.h"

namespace foretrain {

// How many plans there are and what became of them. A plan and those that it gives way to are one.
struct SearchCounts {
  std::int64_t legal = 0;          // the size of the space
  std::int64_t beyond_memory = 0;  // their static bytes and activations in flight alone do not fit
  std::int64_t too_slow = 0;       // cannot be faster than those found, whatever their waits
  std::int64_t simulated = 0;
  std::int64_t did_not_fit = 0;  // of the simulated
};

struct RankedPlan {
  CaseReport report;
  // What it spends more on than the best plan, and how much; none for the best.
  std::optional<Cause> slower_by;
  Time more;
  // How likely the best plan is the faster of the two, as far as runs that were measured say.
  std::optional<double> order_right = {};
};

// The plan that would be faster than all that fit by a percent or more, for the fewest bytes; of the few dozen nearest
// whose bounds allow it.
struct NearestMiss {
  Plan plan;
  Bytes missing;
  Time step_time;
};

// A plan that somebody has, beside those that were found.
struct Standing {
  RankedPlan plan;
  std::int64_t faster = 0;  // plans of the space that fit and take less time
  bool at_least = false;    // there are so many that they were not counted to the end
};

// What the search took, for people: by the clock, so not the same twice.
struct SearchSeconds {
  double judging = 0, simulating = 0;
};

struct PlanAnswer {
  Case subject;
  std::vector<RankedPlan> best;  // fastest first; equals in the order of PlanChoice
  std::optional<Standing> own;   // if PlannerOptions::own was given
  std::optional<NearestMiss> nearest_miss;
  double memory_share = 1.0;  // of a GPU's memory that plans could need
  SearchCounts counts;
  SearchSeconds seconds;
  bool complete = true;  // false if the search was stopped: a faster plan may exist
};

// How far a search is.
struct SearchProgress {
  enum class Phase { judging, simulating } phase = Phase::judging;
  double share = 0;  // of the phase; the simulations left get fewer as better plans are found
  SearchCounts counts;
  Time best;  // zero: none so far
};

struct PlannerOptions {
  std::size_t top = 5;
  int threads = 1;
  const std::atomic<bool>* stop = nullptr;  // once set, the best so far is the answer
  // Called now and then, by one thread at a time.
  std::function<void(const SearchProgress&)> progress = {};
  bool with_elasticity = false;  // of the best plans
  // Of a GPU's memory that a plan may need. Where none does with less, up to all of it.
  double memory_share = kTightMemory;
  // The same case with a plan: every plan that could be faster is simulated, so that its rank is exact, unless hundreds
  // are.
  const Case* own = nullptr;
};

// The fastest plans for a case whose plan is open (Case::open_plan says what is fixed of it); the same as if every plan
// of the space were simulated, and the same for any number of threads. A plan that does not fit gives way to one with
// as many layers recomputed, or as much on drives, as must be (PlanSpace). nullopt if no plan is legal; why is
// reported.
std::optional<PlanAnswer> find_plans(const Case& subject, const Environment& environment, const PlannerOptions& options,
                                     Diagnostics& diagnostics);

}  // namespace foretrain
