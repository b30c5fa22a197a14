#include <doctest/doctest.h>

#include "sim/calibration/validate.h"

using namespace foretrain;

namespace {

Comparison timed(double measured, double predicted, double tokens = 1000, std::size_t file = 0) {
  Comparison c;
  c.name = "run";
  c.file = file;
  c.model = "a";
  c.tokens_per_step = tokens;
  c.measured_step_time_s = measured;
  c.predicted_step_time_s = predicted;
  c.predicted_oom = false;
  return c;
}

Comparison fate(bool measured_oom, bool predicted_oom) {
  Comparison c;
  c.measured_oom = measured_oom;
  c.predicted_oom = predicted_oom;
  return c;
}

}  // namespace

TEST_CASE("step time errors: hand-made numbers") {
  // Errors -10 %, 0, +20 %, +30 %, +50 %; absolute 0, 10, 20, 30, 50 %.
  const std::vector<Comparison> runs = {timed(10, 9), timed(10, 10, 2000), timed(10, 12, 3000), timed(10, 13, 4000),
                                        timed(10, 15, 5000)};
  const Accuracy a = accuracy(runs);
  CHECK(a.cases == 5);
  CHECK(a.step_times == 5);
  CHECK(*a.mape == doctest::Approx(0.22));
  CHECK(*a.median_ape == doctest::Approx(0.20));
  CHECK(*a.p90_ape == doctest::Approx(0.42));  // 0.6 of the way from 30 to 50 %
  CHECK(*a.bias == doctest::Approx(0.18));
  CHECK_FALSE(a.memory_mape);
  CHECK_FALSE(a.pairwise_order_accuracy);
  CHECK(*a.oom_accuracy == 1.0);
  CHECK_FALSE(a.oom_found);
}

TEST_CASE("nothing to compare gives no figures") {
  const Accuracy none = accuracy({});
  CHECK(none.cases == 0);
  CHECK_FALSE(none.mape);
  CHECK_FALSE(none.median_ape);
  CHECK_FALSE(none.p90_ape);
  CHECK_FALSE(none.bias);
  CHECK_FALSE(none.oom_accuracy);
  CHECK_FALSE(none.memory_mape);
}

TEST_CASE("out of memory: right and wrong both ways") {
  const std::vector<Comparison> runs = {fate(true, true), fate(true, false), fate(true, false), fate(false, false),
                                        fate(false, true)};
  const Accuracy a = accuracy(runs);
  CHECK(*a.oom_accuracy == doctest::Approx(0.4));
  CHECK(a.out_of_memory == 3);
  CHECK(*a.oom_found == doctest::Approx(1.0 / 3.0));
}

TEST_CASE("memory error") {
  Comparison c = fate(false, false);
  c.measured_memory = Bytes{40e9};
  c.predicted_memory = Bytes{44e9};
  Comparison low = c;
  low.predicted_memory = Bytes{32e9};
  CHECK(*c.memory_error() == doctest::Approx(0.1));
  CHECK(*accuracy(std::vector{c, low}).memory_mape == doctest::Approx(0.15));
}

TEST_CASE("order of pairs") {
  SUBCASE("right, wrong and tied") {
    // Measured 1 < 2 < 3; predicted 1, 3, 2: pairs (1,2) and (1,3) right, (2,3) wrong.
    const std::vector<Comparison> runs = {timed(1, 1), timed(2, 3), timed(3, 2)};
    CHECK(accuracy(runs).pairs == 3);
    CHECK(*accuracy(runs).pairwise_order_accuracy == doctest::Approx(2.0 / 3.0));
    CHECK(*accuracy(std::vector{timed(1, 5), timed(2, 5)}).pairwise_order_accuracy == 0.0);
  }
  SUBCASE("measurements within 2 % say nothing") {
    CHECK_FALSE(accuracy(std::vector{timed(1.00, 2), timed(1.02, 1)}).pairwise_order_accuracy);
    CHECK(*accuracy(std::vector{timed(1.00, 2), timed(1.03, 1)}).pairwise_order_accuracy == 0.0);
  }
  SUBCASE("only the same work of the same source") {
    CHECK_FALSE(accuracy(std::vector{timed(1, 1, 1000), timed(2, 2, 2000)}).pairwise_order_accuracy);
    CHECK_FALSE(accuracy(std::vector{timed(1, 1, 1000, 0), timed(2, 2, 1000, 1)}).pairwise_order_accuracy);
  }
  SUBCASE("the same model apart") {
    std::vector<Comparison> runs = {timed(1, 1), timed(2, 3), timed(3, 2)};
    runs[0].model = "b";
    CHECK(accuracy(runs).same_model_pairs == 1);
    CHECK(*accuracy(runs).same_model_order_accuracy == 0.0);
  }
}

TEST_CASE("a failed case counts as such and nowhere else") {
  Comparison failed = timed(1, 1);
  failed.predicted_step_time_s.reset();
  failed.predicted_oom.reset();
  failed.failure = "deadlock";
  const Accuracy a = accuracy(std::vector{failed, timed(1, 2)});
  CHECK(a.failures == 1);
  CHECK(a.step_times == 1);
  CHECK(*a.mape == doctest::Approx(1.0));
  CHECK(*a.oom_accuracy == 1.0);
}
