#pragma once

#include <optional>

namespace foretrain {

// What a job meets beside its steps, in hours.
struct Interruptions {
  double checkpoint = 0.0;                  // writing one; training waits
  std::optional<double> interval;           // of training between two; absent: the best, or none without interruptions
  std::optional<double> mean_time_between;  // of the whole job; absent: none
  double restart = 0.0;                     // from an interruption until training goes on from the last checkpoint
};

// The interval between checkpoints that loses least time: Daly's estimate, of which Young's sqrt(2 d M) is the first
// term (J. Young, Comm. ACM 17, 1974; J. T. Daly, Future Generation Computer Systems 22, 2006, equation 37).
double best_interval(double checkpoint, double mean_time_between);

// Where the hours of a job go.
struct JobTime {
  double setup = 0.0, transfer = 0.0, training = 0.0, checkpoints = 0.0, interruptions = 0.0;
  double total() const { return setup + transfer + training + checkpoints + interruptions; }
};

// Adds to `time` what checkpoints and interruptions cost its training. With interruptions at random (a Poisson process)
// of mean time M between them, interval t, checkpoint d and restart R, training of T hours takes
//   M exp(R / M) (exp((t + d) / M) - 1) T / t
// in expectation: a renewal argument, exact (Daly 2006, equation 20). Infinite where it would never end.
JobTime with_interruptions(JobTime time, const Interruptions& what);

}  // namespace foretrain
