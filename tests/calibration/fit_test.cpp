#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "sim/calibration/fit_kernels.h"
#include "sim/calibration/fit_robust.h"
#include "tests/support/cases.h"

using namespace foretrain;
using namespace foretrain::testing;

namespace {

// A power law y = a x^b with a little noise; b is the exponent shifted by 1 to be positive.
RobustFit fit_power_law(std::span<const double> x, std::span<const double> y, FitParameter scale = {1.0, 1e-3, 1e3, {}},
                        FitParameter exponent = {1.0, 0.1, 5.0, {}}) {
  const std::vector<FitParameter> parameters = {scale, exponent};
  return fit_robust(parameters, y, [&](std::span<const double> p, std::span<double> out) {
    for (std::size_t i = 0; i < x.size(); ++i) out[i] = p[0] * std::pow(x[i], p[1]);
  });
}

struct Series {
  std::vector<double> x, y;
};
Series power_law(double a, double b, double noise) {
  std::mt19937 random(7);
  Series s;
  for (int i = 0; i < 60; ++i) {
    s.x.push_back(1.0 + i);
    const double up_or_down = static_cast<double>(random() % 2001) / 1000.0 - 1.0;
    s.y.push_back(a * std::pow(s.x.back(), b) * std::exp(noise * up_or_down));
  }
  return s;
}

// Synthetic measurements of one card, as the curves themselves predict them.
class Bench {
 public:
  explicit Bench(const char* card) {
    Diagnostics diagnostics;
    all.cards.push_back(*load_datasheet(data_folder(), card, {}, diagnostics));
  }
  const std::string& file() const { return all.cards[0].achieved; }

  void gemm(Precision precision, std::int64_t m, std::int64_t n, std::int64_t k, double fraction, double floor_us,
            Condition condition = Condition::loop) {
    Gpu gpu = reaching(fraction, 0.9, floor_us);
    GemmSample sample;
    sample.precision = precision;
    sample.gemm.m = m;
    sample.gemm.n = n;
    sample.gemm.k = k;
    const double seconds = gemm_time(gpu, precision, sample.gemm).total().value;
    const double flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
    add(sample, seconds, flops / seconds, condition);
  }
  void attention(std::int64_t heads, std::int64_t seq, bool causal, Pass pass, AchievedRates::Attention rates) {
    Gpu gpu = reaching(1.0, 0.9, 2);
    gpu.achieved.flash[2] = rates;
    AttentionSample sample;
    sample.shape.heads = heads;
    sample.shape.seq = seq;
    sample.shape.causal = causal;
    sample.pass = pass;
    add(sample, flash_attention_time(gpu, Precision::bf16, sample.kernel, sample.shape, pass).total().value, 1);
  }
  void memory(double bytes, double fraction, double floor_us) {
    const double seconds = streaming_time(reaching(1.0, fraction, floor_us), Bytes{bytes}, 1).total().value;
    add(MemorySample{{bytes}}, seconds, bytes / seconds);
  }
  void add(KernelSample sample, double seconds, double rate, Condition condition = Condition::loop) {
    Measurement row;
    row.condition = condition;
    row.kernel = std::move(sample);
    row.seconds = seconds;
    row.rate = rate;
    all.rows.push_back(row);
  }

  Measurements all;

 private:
  Gpu reaching(double matmul, double memory, double floor_us) const {
    Gpu gpu = all.cards[0].gpu;
    gpu.achieved.matmul.fill(matmul);
    gpu.achieved.memory = memory;
    gpu.achieved.kernel_floor = gpu.achieved.elementwise_floor = microseconds(floor_us);
    return gpu;
  }
};

Bench products(double fraction, double floor_us = 2) {
  Bench bench("a100-sxm4-80gb");
  for (const std::int64_t m : {512, 1024, 4096, 8192}) {
    for (const std::int64_t n : {1024, 4096, 11008}) {
      for (const std::int64_t k : {1024, 4096, 8192}) bench.gemm(Precision::bf16, m, n, k, fraction, floor_us);
    }
  }
  return bench;
}

}  // namespace

TEST_CASE("quantiles interpolate") {
  CHECK(quantile({3, 1, 2}, 0.5) == 2);
  CHECK(quantile({1, 2}, 0.5) == 1.5);
  CHECK(quantile({4}, 0.9) == 4);
  CHECK(quantile({}, 0.5) == 0);
}

TEST_CASE("a robust fit finds the parameters of a noisy law") {
  const Series s = power_law(3.0, 1.7, 0.02);
  const RobustFit fit = fit_power_law(s.x, s.y);
  CHECK(fit.values[0] == doctest::Approx(3.0).epsilon(0.02));
  CHECK(fit.values[1] == doctest::Approx(1.7).epsilon(0.01));
  CHECK(fit.scale < 0.03);
  CHECK_FALSE(fit.at_bound[0]);
}

TEST_CASE("a sixth of wild observations does not move a robust fit") {
  Series s = power_law(3.0, 1.7, 0.02);
  for (std::size_t i = 0; i < s.y.size(); i += 6) s.y[i] *= 20;
  const RobustFit fit = fit_power_law(s.x, s.y);
  CHECK(fit.values[0] == doctest::Approx(3.0).epsilon(0.03));
  CHECK(fit.values[1] == doctest::Approx(1.7).epsilon(0.01));
}

TEST_CASE("bounds hold and are reported, priors decide where data cannot") {
  const Series s = power_law(3.0, 1.7, 0.0);
  const RobustFit bounded = fit_power_law(s.x, s.y, {1.0, 0.5, 2.0, {}});
  CHECK(bounded.values[0] == doctest::Approx(2.0));
  CHECK(bounded.at_bound[0]);
  CHECK(bounded.values[1] > 1.7);  // makes up for it

  const std::vector<double> one(20, 1.0), measured(20, 3.0);  // at x = 1 the exponent does not show
  const RobustFit vague = fit_power_law(one, measured, {1.0, 1e-3, 1e3, {}}, {1.0, 0.1, 5.0, 2.5, 0.1});
  CHECK(vague.values[0] == doctest::Approx(3.0));
  CHECK(vague.values[1] == doctest::Approx(2.5));
}

TEST_CASE("the matrix fraction is recovered, whatever a launch costs") {
  for (const double fraction : {0.55, 0.84}) {
    for (const double floor_us : {1.0, 2.0, 6.0}) {
      const Bench bench = products(fraction, floor_us);
      const auto fit = fit_matmul(bench.all, bench.file(), Precision::bf16);
      REQUIRE(fit);
      CHECK(fit->value == doctest::Approx(fraction).epsilon(0.01));
      CHECK(fit->quality.rows == 36);
      CHECK(fit->quality.p90_error < 0.03);
      // fp16 runs at the same rate on this card, so the rows speak for it; tf32 does not.
      CHECK(fit_matmul(bench.all, bench.file(), Precision::fp16)->value == fit->value);
      CHECK_FALSE(fit_matmul(bench.all, bench.file(), Precision::tf32));
      CHECK_FALSE(fit_matmul(bench.all, "h100-sxm5", Precision::bf16));
    }
  }
}

TEST_CASE("outliers do not move the matrix fraction") {
  Bench bench = products(0.8);
  for (std::size_t i = 0; i < bench.all.rows.size(); i += 5) bench.all.rows[i].seconds *= 4;
  CHECK(fit_matmul(bench.all, bench.file(), Precision::bf16)->value == doctest::Approx(0.8).epsilon(0.01));
}

TEST_CASE("a matrix fraction stays physical") {
  Bench bench = products(0.8);
  for (Measurement& row : bench.all.rows) row.seconds *= 0.4;  // 2 x the datasheet
  const auto fit = fit_matmul(bench.all, bench.file(), Precision::bf16);
  CHECK(fit->value == doctest::Approx(1.1));
  CHECK(fit->quality.at_bound);
}

TEST_CASE("loops speak before bursts, bursts before best shapes") {
  Bench bench("h100-sxm5-80gb");
  const auto fraction = [&] { return fit_matmul(bench.all, bench.file(), Precision::bf16)->value; };
  GemmSample peak;
  bench.add(peak, 0.0, 0.7 * 989.4e12, Condition::best_shape);
  CHECK(fraction() == doctest::Approx(0.7).epsilon(0.01));
  CHECK(fit_matmul(bench.all, bench.file(), Precision::bf16)->quality.condition == Condition::best_shape);
  for (const std::int64_t n : {2048, 4096, 8192}) bench.gemm(Precision::bf16, 8192, n, 4096, 0.9, 2, Condition::burst);
  CHECK(fraction() == doctest::Approx(0.9).epsilon(0.01));
  for (const std::int64_t n : {2048, 4096, 8192}) bench.gemm(Precision::bf16, 8192, n, 4096, 0.75, 2);
  CHECK(fraction() == doctest::Approx(0.75).epsilon(0.01));
}

TEST_CASE("regions without rows are named") {
  const Bench bench = products(0.8);
  const auto without = fit_matmul(bench.all, bench.file(), Precision::bf16)->quality.without_data;
  const auto named = [&](std::string_view what) {
    return std::any_of(without.begin(), without.end(), [&](const std::string& s) { return s.starts_with(what); });
  };
  CHECK(named("skinny"));
  CHECK(named("batched"));
  CHECK(named("above 2 TFLOP"));
  CHECK_FALSE(named("below 20 GFLOP"));
}

TEST_CASE("attention: both passes and the prologue are recovered") {
  Bench bench("a100-sxm4-80gb");
  const AchievedRates::Attention truth{0.66, 0.52, 300};
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    for (const std::int64_t heads : {8, 32, 128}) {
      for (const std::int64_t seq : {1024, 4096, 16384}) bench.attention(heads, seq, true, pass, truth);
    }
    bench.attention(64, 4096, false, pass, truth);
  }
  const auto fit = fit_attention(bench.all, bench.file(), AttentionKernel::flash2);
  REQUIRE(fit);
  CHECK(*fit->forward == doctest::Approx(0.66).epsilon(0.01));
  CHECK(*fit->backward == doctest::Approx(0.52).epsilon(0.01));
  CHECK(fit->prologue == doctest::Approx(300).epsilon(0.05));
  CHECK(fit->prologue_measured);
  CHECK_FALSE(fit_attention(bench.all, bench.file(), AttentionKernel::flash3));
}

TEST_CASE("attention: one length cannot tell the prologue, one pass not the other") {
  Bench bench("a100-sxm4-80gb");
  for (const std::int64_t heads : {16, 64}) bench.attention(heads, 4096, true, Pass::forward, {0.66, 0.52, 400});
  const auto fit = fit_attention(bench.all, bench.file(), AttentionKernel::flash2);
  REQUIRE(fit);
  CHECK_FALSE(fit->prologue_measured);
  CHECK(fit->prologue == doctest::Approx(400));
  CHECK(*fit->forward == doctest::Approx(0.66).epsilon(0.01));
  CHECK_FALSE(fit->backward);
}

TEST_CASE("the memory fraction is recovered apart from the launch") {
  Bench bench("h100-sxm5-80gb");
  for (const double bytes : {1e6, 8e6, 64e6, 512e6}) bench.memory(bytes, 0.88, 4);
  bench.memory(512e6, 0.88, 400);  // an outlier
  bench.add(MemorySample{}, 0.0, 0.88 * 3350e9);
  const auto fit = fit_memory(bench.all, bench.file());
  REQUIRE(fit);
  CHECK(fit->value == doctest::Approx(0.88).epsilon(0.01));
}

TEST_CASE("launches: a card of many rows counts once") {
  Bench bench("h100-sxm5-80gb");
  Diagnostics diagnostics;
  bench.all.cards.push_back(*load_datasheet(data_folder(), "l40-48gb", {}, diagnostics));
  bench.all.cards.push_back(*load_datasheet(data_folder(), "a40-48gb", {}, diagnostics));
  for (int i = 0; i < 9; ++i) bench.add(LaunchSample{}, 3e-6, 0);
  bench.add(LaunchSample{}, 1e-6, 0);
  bench.all.rows.back().card = 1;
  bench.add(LaunchSample{}, 2e-6, 0);
  bench.all.rows.back().card = 2;
  CHECK(fit_launch(bench.all, std::nullopt)->stream_us == doctest::Approx(2));
  CHECK(fit_launch(bench.all, "l40")->stream_us == doctest::Approx(1));
  CHECK_FALSE(fit_launch(bench.all, std::nullopt)->graph_us);
}
