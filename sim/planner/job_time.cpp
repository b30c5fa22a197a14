#include "sim/planner/job_time.h"

#include <algorithm>
#include <cmath>

namespace foretrain {

double best_interval(double checkpoint, double mean_time_between) {
  const double share = checkpoint / (2.0 * mean_time_between);
  if (share >= 1.0) return mean_time_between;
  const double young = std::sqrt(2.0 * checkpoint * mean_time_between);
  return young * (1.0 + std::sqrt(share) / 3.0 + share / 9.0) - checkpoint;
}

JobTime with_interruptions(JobTime time, const Interruptions& what) {
  std::optional<double> interval = what.interval;
  if (!interval && what.mean_time_between) interval = best_interval(what.checkpoint, *what.mean_time_between);
  if (!interval) return time;
  // Nobody saves more often than that takes to write, or less than once.
  const double each = std::min(std::max(*interval, what.checkpoint), time.training);
  if (!(each > 0)) return time;
  time.checkpoints = what.checkpoint * time.training / each;
  if (what.mean_time_between) {
    const double mean = *what.mean_time_between;
    const double expected =
        mean * std::exp(what.restart / mean) * std::expm1((each + what.checkpoint) / mean) * time.training / each;
    time.interruptions = expected - time.training - time.checkpoints;
  }
  return time;
}

}  // namespace foretrain
