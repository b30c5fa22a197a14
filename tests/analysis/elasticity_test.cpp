#include "sim/analysis/elasticity.h"

#include <doctest/doctest.h>

#include <cmath>
#include <set>

#include "sim/analysis/hardware_rate.h"
#include "tests/support/cases.h"
#include "tests/support/plan_kinds.h"
#include "tests/support/rates.h"

using namespace foretrain;
using namespace foretrain::testing;

TEST_CASE("elasticities are what a percent more or less of a rate changes") {
  std::set<std::string> kinks;
  for (const PlanKind& kind : plan_kinds()) check_elasticities(kind.name, case_of_kind(kind), kinks);
  // Where the host's launches or a transfer take just as long as what they run beside.
  for (const std::string& kink : kinks) MESSAGE(kink);
  CHECK(kinks.size() <= 6);
}

TEST_CASE("a rate twice as fast makes no step slower") {
  for (const PlanKind& kind : plan_kinds()) check_twice_as_fast(kind.name, case_of_kind(kind));
}

TEST_CASE("all rates and fixed costs twice as fast halve the step: nothing that takes time has been forgotten") {
  for (const PlanKind& kind : plan_kinds()) {
    CAPTURE(kind.name);
    Setup setup{case_of_kind(kind), environment()};
    const Time before = step_time(setup.subject, setup.environment);
    for (const HardwareRate rate : all_rates()) setup = with_faster(std::move(setup), rate, 2.0);
    setup.subject.software.step_overhead_ms /= 2;
    const double ratio = before.seconds() / step_time(setup.subject, setup.environment).seconds();
    // Starting a copy to or from the host keeps its 10 us.
    CHECK(ratio == doctest::Approx(2.0).epsilon(setup.subject.plan.offload.any() ? 5e-3 : 1e-7));
  }
}

TEST_CASE("elasticities add up to one with the share of the fixed cost of a step") {
  for (const PlanKind& kind : plan_kinds()) {
    CAPTURE(kind.name);
    const Case subject = case_of_kind(kind);
    const Elasticity e = elasticity(subject, environment());
    double sum = 0;
    for (const auto& [name, value] : e.named()) sum += value;
    CHECK(sum == doctest::Approx(1.0).epsilon(1e-9));
    // The job folds alike at other rates, so it need not be folded again.
    CHECK(elasticity(subject, environment(), simulate_plainly(subject).step.folded).of == e.of);
    // `other` is the rest to 1; it must be what a cheaper fixed cost would gain.
    const Case as_run = as_simulated(subject, environment());
    const double fixed = as_run.software.step_overhead_ms * 1e-3 / step_time(subject, environment()).seconds();
    CHECK(e.other > -2e-3);
    CHECK_MESSAGE(std::abs(e.other - fixed) < 1e-2, e.other << " of which the fixed cost is " << fixed);
  }
}

TEST_CASE("what is bound by one rate has elasticity one to it") {
  Case subject = case_of(
      "model: {arch: gpt, layers: 8, hidden: 8192, heads: 64, ffn: 32768, vocab: 1024}\nsoftware: megatron-lm\n"
      "cluster: {gpu: a100-sxm4-80gb, gpus: 1, gpus_per_node: 1, intra: nvswitch}\n"
      "train: {seq_len: 4096, global_batch: 4, precision: bf16}\nplan: {micro_batch: 4}");
  subject.software = without_overheads(subject.software);
  CHECK(elasticity(subject, environment())[HardwareRate::matmul] == doctest::Approx(1.0).epsilon(0.05));
  // Hosts that take a second for a layer: nothing else counts.
  subject.software.host_forward_ms = subject.software.host_backward_ms = 1000;
  CHECK(elasticity(subject, environment())[HardwareRate::host] == doctest::Approx(1.0).epsilon(0.02));
}

TEST_CASE("where the host takes just as long as the GPU, faster gains nothing and slower costs") {
  Case subject = case_of(
      "model: {arch: gpt, layers: 8, hidden: 2048, heads: 16, ffn: 8192, vocab: 1024}\nsoftware: megatron-lm\n"
      "cluster: {gpu: a100-sxm4-80gb, gpus: 1, gpus_per_node: 1, intra: nvswitch}\n"
      "train: {seq_len: 2048, global_batch: 4, precision: bf16}\nplan: {micro_batch: 4}");
  subject.software.host_backward_ms = subject.software.micro_batch_overhead_ms = 0;
  const auto time_at = [&](double forward_ms) {
    Case c = subject;
    c.software.host_forward_ms = forward_ms;
    return step_time(c, environment());
  };
  double hidden = 0, seen = 1000;  // the longest host time that the GPU hides is between
  while (seen - hidden > 1e-9) (time_at(0.5 * (hidden + seen)) == time_at(0) ? hidden : seen) = 0.5 * (hidden + seen);
  subject.software.host_forward_ms = hidden;
  const Time now = step_time(subject, environment());
  CHECK(time_with(subject, HardwareRate::host, 1.01) == now);
  CHECK(time_with(subject, HardwareRate::host, 1.0 / 1.01) > now);
  const double loss =
      std::log(time_with(subject, HardwareRate::host, 1.0 / 1.01).seconds() / now.seconds()) / std::log(1.01);
  const double e = elasticity(subject, environment())[HardwareRate::host];
  CHECK(e > 0);
  CHECK(e < loss);
  CHECK(e == doctest::Approx(0.5 * loss).epsilon(0.02));
}
