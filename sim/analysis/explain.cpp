#include "sim/analysis/explain.h"

#include <array>
#include <cmath>
#include <stdexcept>

#include "sim/analysis/advice.h"
#include "sim/base/parallel.h"

namespace foretrain {

bool Explanation::Faster::kink() const { return std::abs(gain - loss) > 5e-3; }

std::vector<Breakdown> stage_breakdowns(const CaseReport& r) {
  std::vector<std::vector<Breakdown>> of_stage;
  std::vector<std::vector<int>> gpus;
  for (std::size_t rank = 0; rank < r.per_class.size(); ++rank) {
    const auto stage = static_cast<std::size_t>(r.step.stage[rank]);
    if (stage >= of_stage.size()) {
      of_stage.resize(stage + 1);
      gpus.resize(stage + 1);
    }
    of_stage[stage].push_back(r.per_class[rank]);
    gpus[stage].push_back(r.step.multiplicity[rank]);
  }
  std::vector<Breakdown> means;
  for (std::size_t stage = 0; stage < of_stage.size(); ++stage) means.push_back(mean(of_stage[stage], gpus[stage]));
  return means;
}

Explanation explain(const Case& asked, const Environment& environment, int threads) {
  Case subject = asked.micro_batch_auto ? with_largest_micro_batch(asked, environment) : asked;
  Explanation e;
  if (layer_passes(subject.plan, subject.model, subject.train) > kMostForElasticity) {
    throw std::overflow_error("a step of so many layer passes is simulated once, not a hundred times");
  }
  e.report = simulate_case(subject, environment);
  e.path = critical_path(e.report);

  for (std::size_t i = 0; i < kHardwareRates; ++i) {
    const auto rate = static_cast<HardwareRate>(i);
    if (!matters(subject, rate)) continue;
    Explanation::Faster& faster = e.hardware.emplace_back();
    faster.rate = rate;
    faster.elasticity = (*e.report.elasticity)[rate];
  }
  constexpr double kPercent = 1.01;
  constexpr std::array<double, 3> kFactors = {kPercent, 1.0 / kPercent, 2.0};
  std::vector<Time> times(e.hardware.size() * kFactors.size());
  parallel_for(times.size(), threads, [&](std::size_t i) {
    const Setup changed =
        with_faster({subject, environment}, e.hardware[i / kFactors.size()].rate, kFactors[i % kFactors.size()]);
    times[i] = step_time(changed.subject, changed.environment);
  });
  const double now = e.report.step_time.seconds();
  for (std::size_t i = 0; i < e.hardware.size(); ++i) {
    Explanation::Faster& faster = e.hardware[i];
    const Time* of = &times[i * kFactors.size()];
    faster.gain = std::log(now / of[0].seconds()) / std::log(kPercent);
    faster.loss = std::log(of[1].seconds() / now) / std::log(kPercent);
    faster.twice = of[2];
    faster.twice_by_elasticity = std::exp2(-faster.elasticity);
  }
  e.software = try_changes(software_switches(), {subject, environment}, threads);
  return e;
}

}  // namespace foretrain
