// How many plans a second a core judges by their bounds, and how many it simulates.

#include <benchmark/benchmark.h>

#include <algorithm>

#include "sim/planner/bounds.h"
#include "sim/planner/space.h"
#include "sim/planner/trial.h"
#include "tests/support/cases.h"

namespace {

using namespace foretrain;
using namespace foretrain::testing;

Case open_case(const std::string& yaml) {
  Case c = as_simulated(case_of(yaml + "\nplan: {tp: 8}"), environment());
  c.open_plan = PlanRequest{};
  return c;
}

Case open_gpt3() {
  return open_case(
      "model: gpt-3-175b\nsoftware: megatron-lm\ncluster: {node: dgx-a100-80g, nodes: 128, fabric: hdr-rails}\n"
      "train: {seq_len: 2048, global_batch: 1536, precision: fp16}");
}

Case open_llama() {
  return open_case(
      "model: llama-2-7b\nsoftware: megatron-core\ncluster: {node: dgx-a100-80g}\n"
      "train: {seq_len: 4096, global_batch: 64, precision: bf16}");
}

std::vector<Plan> all_plans(const PlanSpace& space, const Cluster& cluster) {
  std::vector<Plan> plans;
  Balancer balancer(cluster, environment().collectives);
  for (std::size_t family = 0; family < space.families(); ++family) {
    space.for_each(family, balancer, [&](const PlanChoice&, const Plan& plan) { plans.push_back(plan); });
  }
  return plans;
}

void judge(benchmark::State& state, const Case& subject) {
  const Cluster cluster(subject.cluster, environment().link_rates);
  const PlanSpace space(subject, cluster, environment().collectives);
  const std::vector<Plan> plans = all_plans(space, cluster);
  for (auto _ : state) {
    PlanBounds bounds(subject, cluster, environment().collectives, environment().hosts);
    for (const Plan& plan : plans) {
      benchmark::DoNotOptimize(bounds.missing_memory(plan));
      benchmark::DoNotOptimize(bounds.step_time(plan));
    }
  }
  state.counters["plans"] = static_cast<double>(plans.size());
  state.counters["plans/s"] =
      benchmark::Counter(static_cast<double>(plans.size()), benchmark::Counter::kIsIterationInvariantRate);
}

// Plans as a search meets them: those that fit, in the order of their bounds.
void simulate(benchmark::State& state, const Case& subject) {
  const Cluster cluster(subject.cluster, environment().link_rates);
  const PlanSpace space(subject, cluster, environment().collectives);
  PlanBounds bounds(subject, cluster, environment().collectives, environment().hosts);
  std::vector<std::pair<Time, Plan>> plans;
  for (const Plan& plan : all_plans(space, cluster)) {
    if (bounds.missing_memory(plan) <= Bytes{}) plans.emplace_back(bounds.step_time(plan), plan);
  }
  std::sort(plans.begin(), plans.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  plans.resize(std::min<std::size_t>(plans.size(), 64));
  for (auto _ : state) {
    Trials trials(subject, environment());  // each time anew: what plans share is made once a search
    for (const auto& [bound, plan] : plans) benchmark::DoNotOptimize(trials.simulate(plan, false));
  }
  state.counters["plans/s"] =
      benchmark::Counter(static_cast<double>(plans.size()), benchmark::Counter::kIsIterationInvariantRate);
}

BENCHMARK_CAPTURE(judge, llama_7b_on_8, open_llama())->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(judge, gpt3_175b_on_1024, open_gpt3())->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(simulate, llama_7b_on_8, open_llama())->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(simulate, gpt3_175b_on_1024, open_gpt3())->Unit(benchmark::kMillisecond);

}  // namespace
