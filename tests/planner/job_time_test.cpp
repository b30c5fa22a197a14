// The hours of a job with checkpoints and interruptions, and buying against renting.

#include "sim/planner/job_time.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>

#include "sim/planner/break_even.h"

using namespace foretrain;

namespace {

JobTime training(double hours) { return {.setup = 0, .transfer = 0, .training = hours}; }

}  // namespace

TEST_CASE("without interruptions only checkpoints that are asked for cost time") {
  const JobTime plain = with_interruptions(training(100), {.checkpoint = 0.1, .interval = {}, .mean_time_between = {}});
  CHECK(plain.total() == 100);
  const JobTime saved = with_interruptions(training(100), {.checkpoint = 0.1, .interval = 2, .mean_time_between = {}});
  CHECK(saved.checkpoints == doctest::Approx(5));  // fifty of them
  CHECK(saved.interruptions == 0);
}

TEST_CASE("interruptions cost what random failures cost in expectation") {
  // A job that saves every 2 h, in 0.1 h, is interrupted every 10 h and restarts in 0.5 h, played 20,000 times.
  const double checkpoint = 0.1, interval = 2, mean = 10, restart = 0.5, hours = 20;
  std::mt19937_64 random(11);
  std::exponential_distribution<double> until(1 / mean);
  double sum = 0;
  constexpr int kPlays = 20000;
  for (int play = 0; play < kPlays; ++play) {
    double next = until(random);
    for (double done = 0; done < hours; done += interval) {
      double left = interval + checkpoint;
      while (next < left) {
        // The segment is lost; restarting may be interrupted too.
        sum += next;
        next = until(random);
        left = restart + interval + checkpoint;
      }
      sum += left;
      next -= left;
    }
  }
  const JobTime expected = with_interruptions(
      training(hours), {.checkpoint = checkpoint, .interval = interval, .mean_time_between = mean, .restart = restart});
  CHECK(expected.total() == doctest::Approx(sum / kPlays).epsilon(0.01));
  CHECK(expected.checkpoints == doctest::Approx(1));
}

TEST_CASE("the best interval is the best one, and Young's where interruptions are rare") {
  for (const double checkpoint : {0.01, 0.1, 0.5}) {
    for (const double mean : {5.0, 50.0, 500.0}) {
      const auto total = [&](double interval) {
        return with_interruptions(training(1e4),
                                  {.checkpoint = checkpoint, .interval = interval, .mean_time_between = mean})
            .total();
      };
      double least = std::numeric_limits<double>::infinity();
      for (double interval = checkpoint; interval < 20 * mean; interval *= 1.01)
        least = std::min(least, total(interval));
      CHECK(total(best_interval(checkpoint, mean)) < 1.002 * least);
    }
  }
  CHECK(best_interval(0.01, 1e6) == doctest::Approx(std::sqrt(2 * 0.01 * 1e6)).epsilon(0.01));
  CHECK(best_interval(3, 1) == 1);
}

TEST_CASE("more interruptions, slower restarts and larger checkpoints never save time") {
  double before = 0;
  for (const double mean : {1e5, 1e3, 100.0, 20.0, 5.0, 1.0}) {
    const double total =
        with_interruptions(training(50), {.checkpoint = 0.1, .interval = {}, .mean_time_between = mean, .restart = 0.2})
            .total();
    CHECK(total > before);
    before = total;
  }
  CHECK(std::isinf(
      with_interruptions(training(1e4), {.checkpoint = 100, .interval = 5000, .mean_time_between = 1}).total()));
}

TEST_CASE("owning pays after cost / (rent - own) months") {
  Ownership ownership;
  ownership.power_price = 0.8;
  ownership.power_factor = 1.25;
  ownership.upkeep_per_month = 1255;
  ownership.residual = 0.25;
  // 6.5 kW * 1.25 * 730 h * 0.8 = 4745 a month, and upkeep: 6000. 600,000 / (36,000 - 6000) = 20 months.
  const BreakEven even = break_even(800000, 6.5, ownership, 36000);
  CHECK(even.own_per_month == doctest::Approx(6000));
  CHECK(even.cost.low == doctest::Approx(600000));
  CHECK(even.months.low == doctest::Approx(20));
  CHECK(even.months.is_point());
  const BreakEven band = break_even({400000, 800000}, 6.5, ownership, {26000, 36000});
  CHECK(band.months.low == doctest::Approx(10));
  CHECK(band.months.high == doctest::Approx(30));
  CHECK(std::isinf(break_even(800000, 6.5, ownership, 5000).months.low));
}
