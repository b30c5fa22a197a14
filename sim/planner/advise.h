#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/analysis/case_change.h"
#include "sim/planner/planner.h"

namespace foretrain {

// What costs nothing to try before more hardware: precision, optimizer, attention, loss, kernels, packing. Recompute,
// accumulation and offload are part of every plan that is looked for.
// `mean_tokens`: of a sample, where samples are shorter than the sequences they are padded to; 0 if they are not.
std::vector<CaseChange> free_changes(double mean_tokens);

struct AdviseOptions {
  double tokens = 0;            // of the whole job; 0: the case's own, if it has any
  double deadline_seconds = 0;  // 0: none
  double mean_tokens = 0;       // see free_changes
  PlannerOptions search;
  // Called as each size is looked at: how much of all is done, if the cluster need not grow.
  std::function<void(int gpus, double share)> progress = {};
};

// In three steps: does it go on one card, on several, or does it need a cluster; what is free to try there; and only
// then more hardware. Every answer is the best plan of its machine, by simulation.
struct Advice {
  // A machine with its best plan.
  struct Answer {
    Case subject;
    Outcome outcome;
    std::optional<double> seconds;  // of the whole job
  };
  // A free change: with the same plan, and with the best plan that it allows where that was looked for.
  struct Free {
    std::string name;
    Message what;
    Outcome same_plan;
    std::optional<Outcome> best_plan;
  };
  struct Size {
    int gpus = 0;
    std::optional<Answer> best;     // as described; absent if no plan fits
    Bytes missing;                  // then: what the nearest plan lacks
    std::vector<Message> changes;   // free changes that make it fit, where it does not as described
    std::optional<Answer> changed;  // the best plan with them
    Message why_not;                // where no plan is legal
    const Answer* answer() const { return best ? &*best : changed ? &*changed : nullptr; }

    // What is free to try on it; looked for from the smallest size up to the one that is recommended.
    std::vector<Free> free;
    std::vector<Message> helpful;    // those that make it faster
    std::optional<Answer> together;  // all of these at once
  };
  std::string name;
  Case subject;             // as asked, on all of its GPUs
  std::vector<Size> sizes;  // from one card to the whole cluster, and beyond it if the deadline needs more
  // The smallest that fits and meets the deadline, with free changes if it must be; else the fastest that fits.
  std::optional<std::size_t> recommended;
  bool meets_deadline = true;
  bool complete = true;  // false if it was stopped: plans or sizes that were not looked at may be better
};

// Precondition: the case's plan is open (Case::open_plan); what is fixed of it stays so except for degrees of
// parallelism. nullopt if no plan is legal on any size; why is reported.
std::optional<Advice> advise(const Case& subject, const Environment& environment, const AdviseOptions& options,
                             Diagnostics& diagnostics);

// The case's whole machine alone, with what is free to try on it. The same precondition.
Advice::Size advise_size(const Case& subject, const Environment& environment, const AdviseOptions& options);

}  // namespace foretrain
