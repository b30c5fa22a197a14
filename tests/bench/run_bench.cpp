#include <benchmark/benchmark.h>

#include <stdexcept>

#include "tests/support/cases.h"

namespace {

using namespace foretrain;
using namespace foretrain::testing;

Case gpt3() {
  return case_of(
      "model: gpt-3-175b\nsoftware: megatron-lm\n"
      "cluster: {gpu: a100-sxm4-80gb, gpus: 1024, gpus_per_node: 8, intra: nvswitch, nics: 8, nic_gbps: 200, net: "
      "infiniband}\ntrain: {seq_len: 2048, global_batch: 1536, precision: fp16}\n"
      "plan: {tp: 8, pp: 16, micro_batch: 1, recompute: full}");
}

Case fsdp() {
  return case_of(
      "model: llama-2-7b\nsoftware: torch-fsdp\ncluster: {node: dgx-a100-80g, nodes: 8}\n"
      "train: {seq_len: 4096, global_batch: 512, precision: bf16}\nplan: {zero: 3, micro_batch: 1, recompute: full}");
}

Case data_and_tensor() {
  return case_of(
      "model: megatron-7.5b\nsoftware: megatron-lm\ncluster: {node: dgx-a100-80g, nodes: 1}\n"
      "train: {seq_len: 2048, global_batch: 512, precision: fp16}\n"
      "plan: {tp: 2, pp: 2, micro_batch: 1, recompute: full, overlap: {grad_reduce: true}}");
}

void fold(benchmark::State& state, const Case& subject) {
  const Cluster cluster(subject.cluster, environment().link_rates);
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        Communicators(subject, cluster, environment().collectives, Communicators::Folding::symmetric));
  }
}

void build(benchmark::State& state, const Case& subject) {
  const Cluster cluster(subject.cluster, environment().link_rates);
  std::size_t tasks = 0;
  for (auto _ : state) tasks = build_step(subject, cluster, environment().collectives).graph.task_count();
  state.counters["tasks"] = static_cast<double>(tasks);
}

void whole(benchmark::State& state, const Case& subject) {
  double events = 0;
  for (auto _ : state) events += static_cast<double>(simulate_plainly(subject).schedule.events);
  state.counters["events/s"] = benchmark::Counter(events, benchmark::Counter::kIsRate);
}

BENCHMARK_CAPTURE(fold, gpt3_175b_on_1024, gpt3());
BENCHMARK_CAPTURE(build, gpt3_175b_on_1024, gpt3());
BENCHMARK_CAPTURE(build, fsdp_7b_on_64, fsdp());
BENCHMARK_CAPTURE(whole, gpt3_175b_on_1024, gpt3());
BENCHMARK_CAPTURE(whole, fsdp_7b_on_64, fsdp());
BENCHMARK_CAPTURE(whole, data_and_tensor_on_8, data_and_tensor());

}  // namespace
