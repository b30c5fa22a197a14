#pragma once

#include "sim/analysis/case_report.h"
#include "sim/workload/shared_communicators.h"

namespace foretrain {

// What a search wants to know of a plan.
struct Trial {
  Time step_time = Time::max();  // the most: it cannot be simulated; zero: it does not fit and was not timed
  Bytes missing;                 // on the fullest GPU
  bool too_slow = false;         // given up: it takes longer than was of interest
  bool host_is_full = false;     // host memory does not hold what leaves the GPUs; not timed

  bool fits() const { return missing.value <= 0 && step_time < Time::max(); }
};

// Simulates plans of one case, each no further than a search needs. Any number of threads may use it at once.
class Trials {
 public:
  // `subject`: as_simulated(); its plan does not matter. The references must outlive this.
  Trials(const Case& subject, const Environment& environment)
      : case_(subject),
        environment_(environment),
        cluster_(subject.cluster, environment.link_rates),
        communicators_(cluster_, environment.collectives, environment.hosts) {}

  const Cluster& cluster() const { return cluster_; }
  // More passes in a step than are simulated, as simulate_case() says.
  bool too_long(const Plan& plan) const { return layer_passes(plan, case_.model, case_.train) > kMostLayerPasses; }
  // A plan that does not fit is timed only if that is wanted; one that takes longer than `until` may be given up.
  Trial simulate(const Plan& plan, bool even_if_it_does_not_fit, Time until = Time::max());

 private:
  const Case& case_;
  const Environment& environment_;
  Cluster cluster_;
  SharedCommunicators communicators_;
};

}  // namespace foretrain
