#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tests/support/cases.h"

using namespace foretrain;
using namespace foretrain::testing;

namespace {

const std::string kModel =
    "model: {arch: llama, layers: 8, hidden: 2048, heads: 16, kv_heads: 8, ffn: 5632, vocab: 32000}\n"
    "train: {seq_len: 1024, global_batch: 32, precision: bf16}\n";

std::string node(const std::string& more) {
  return kModel + "cluster: {gpu: a100-sxm4-80gb, gpus: 8, gpus_per_node: 8, intra: nvswitch" + more + "}\n";
}
std::string two_nodes(const std::string& more) {
  return kModel +
         "cluster: {gpu: a100-sxm4-80gb, gpus: 16, gpus_per_node: 8, intra: nvswitch, nics: 8, nic_gbps: 200, "
         "net: infiniband" +
         more + "}\n";
}
const std::string kDdp = "software: torch-ddp\nplan: {zero: 0, micro_batch: 2}";
const std::string kFsdp = "software: torch-fsdp\nplan: {zero: 3, micro_batch: 2}";
const std::string kTensor = "software: megatron-lm\nplan: {tp: 4, micro_batch: 2}";
const std::string kPipeline = "software: megatron-lm\nplan: {pp: 2, tp: 8, micro_batch: 2}";
const std::string kH100Node = ", overrides: [{gpu: h100-sxm5-80gb, node: 1}]";

Time step_time(const std::string& yaml) { return simulate_plainly(case_of(yaml)).step_time; }

}  // namespace

TEST_CASE("unlike GPUs fold as far as they are alike, and change no picosecond by it") {
  struct Kind {
    std::string yaml;
    int classes;  // 0: not looked at
  };
  const std::vector<Kind> kinds = {
      {node(", overrides: [{node: 0, index: 3, factor: 0.8}]") + kDdp, 2},
      {node(", overrides: [{node: 0, index: 3, power_limit_w: 250}, {node: 0, index: 5, power_limit_w: 250}]") + kFsdp,
       2},
      {node(", overrides: [{node: 0, index: 3, factor: 0.8}]") + kTensor, 0},
      {two_nodes(kH100Node) + kDdp, 2},
      {two_nodes(kH100Node) + kTensor, 0},
      {two_nodes(kH100Node) + kPipeline, 2},
      {node(", jitter: {sigma: 0.05, seed: 3}") + kDdp, 8},
      {node(", jitter: {sigma: 0.05, seed: 3}") + kFsdp, 8},
  };
  for (const Kind& kind : kinds) {
    CAPTURE(kind.yaml);
    const Case subject = case_of(kind.yaml);
    const CaseReport folded = simulate_plainly(subject);
    const CaseReport unfolded = simulate_plainly(subject, Communicators::Folding::none);
    CHECK(folded.step_time.ps == unfolded.step_time.ps);
    for (std::size_t i = 0; i < kCauses; ++i) CHECK(folded.breakdown.parts[i] == unfolded.breakdown.parts[i]);
    CHECK(folded.breakdown.total() == folded.step_time);
    if (kind.classes > 0) CHECK(folded.step.simulated_ranks == kind.classes);
  }
}

TEST_CASE("one slow GPU slows a synchronous job to its pace") {
  // Without overheads of the host and without communication that hides: the kernels alone.
  const auto ideal = [](const std::string& yaml) {
    Case subject = case_of(yaml);
    subject.software = without_overheads(subject.software);
    return simulate_plainly(subject).step_time.seconds();
  };
  for (const double factor : {0.5, 0.8, 0.95}) {
    CAPTURE(factor);
    const std::string slow = fmt::format("factor: {}", factor);
    const double one = ideal(node(", overrides: [{node: 0, index: 3, " + slow + "}]") + kDdp);
    const double all = ideal(node(", overrides: [{node: 0, " + slow + "}]") + kDdp);
    const double none = ideal(node("") + kDdp);
    CHECK(one == doctest::Approx(all).epsilon(0.01));
    CHECK(one > none);
    CHECK(one < none / factor);  // communication does not get slower
  }
}

TEST_CASE("equal GPUs given as unlike ones are the plain cluster") {
  const ClusterDescription plain = case_of(two_nodes("") + kDdp).cluster;
  for (const char* same :
       {", overrides: [{gpu: a100-sxm4-80gb, node: 1}]", ", overrides: [{node: 0, index: 2, power_limit_w: 400}]",
        ", overrides: [{node: 0, factor: 1}]", ", jitter: {sigma: 0, seed: 4}",
        ", overrides: [{gpu: h100-sxm5-80gb, node: 1}, {gpu: a100-80g, nodes: [0, 1]}]"}) {
    CAPTURE(same);
    const Case subject = case_of(two_nodes(same) + kDdp);
    CHECK(subject.cluster.odd_gpus.empty());
    CHECK(step_time(two_nodes(same) + kDdp) == step_time(two_nodes("") + kDdp));
  }
  // All GPUs replaced by another kind are a cluster of that kind.
  const std::string h100 = kModel +
                           "cluster: {gpu: h100-sxm5-80gb, gpus: 16, gpus_per_node: 8, intra: nvswitch, nics: 8, "
                           "nic_gbps: 200, net: infiniband, host: {pcie: gen4}}\n";
  const std::string replaced = two_nodes(", host: {pcie: gen4}, overrides: [{gpu: h100-sxm5-80gb, nodes: [0, 1]}]");
  CHECK(step_time(replaced + kDdp) == step_time(h100 + kDdp));
  CHECK(step_time(replaced + kPipeline) == step_time(h100 + kPipeline));
}

TEST_CASE("a mixed pipeline wants more layers where GPUs are faster") {
  const auto with = [&](const std::string& layers) {
    return step_time(
        "model: llama-2-7b\nsoftware: megatron-lm\ntrain: {seq_len: 4096, global_batch: 32, precision: bf16}\n"
        "cluster: {gpu: a100-sxm4-80gb, gpus: 16, gpus_per_node: 8, intra: nvswitch, nics: 8, nic_gbps: 200, "
        "net: infiniband, overrides: [{gpu: h100-sxm5-80gb, node: 1}]}\n"
        "plan: {pp: 2, tp: 8, sequence_parallel: true, micro_batch: 1, layers: " +
        layers + "}");
  };
  // The H100s hold the second stage.
  CHECK(with("[11, 21]") < with("[16, 16]"));
  CHECK(with("[16, 16]") < with("[21, 11]"));
}

TEST_CASE("a mixed job fits where its smallest GPU of each stage does") {
  const std::string model = "model: llama-2-7b\nsoftware: deepspeed\ntrain: {seq_len: 2048, global_batch: 16}\n";
  const auto report = [&](const std::string& overrides) {
    return simulate_plainly(case_of(model +
                                    "cluster: {gpu: a100-sxm4-80gb, gpus: 8, gpus_per_node: 8, intra: nvswitch" +
                                    overrides + "}\nplan: {zero: 1, micro_batch: 1, recompute: full}"));
  };
  CHECK(report("").fits);
  const CaseReport mixed = report(", overrides: [{gpu: a100-sxm4-40gb, node: 0, index: 0}]");
  CHECK(mixed.capacity.value == 40960 * kMiB);
  CHECK(mixed.fits == (mixed.memory[0].needed.value <= 40960 * kMiB));
  CHECK(mixed.memory[0].needed.value == report("").memory[0].needed.value);
}

TEST_CASE("jitter is the seed's, costs what the slowest GPU costs, and grows with the spread") {
  const auto jitter = [](double sigma, int seed) {
    return node(fmt::format(", jitter: {{sigma: {}, seed: {}}}", sigma, seed)) + kDdp;
  };
  CHECK(step_time(jitter(0.05, 1)) == step_time(jitter(0.05, 1)));
  CHECK(step_time(jitter(0.05, 1)) != step_time(jitter(0.05, 2)));
  const Case drawn = case_of(jitter(0.05, 1));
  REQUIRE(drawn.cluster.odd_gpus.size() == 8);
  double slowest = 1e9, sum = 0;
  for (const auto& gpu : drawn.cluster.odd_gpus) slowest = std::min(slowest, gpu.speed);
  const std::string like_the_slowest = node(fmt::format(", overrides: [{{node: 0, factor: {:.17g}}}]", slowest)) + kDdp;
  CHECK(step_time(jitter(0.05, 1)).seconds() == doctest::Approx(step_time(like_the_slowest).seconds()).epsilon(0.01));
  // Twice the spread of the same seed: twice as far from the usual speed, in the logarithm.
  const Case wider = case_of(jitter(0.1, 1));
  for (std::size_t i = 0; i < 8; ++i) {
    CHECK(std::log(wider.cluster.odd_gpus[i].speed) == doctest::Approx(2 * std::log(drawn.cluster.odd_gpus[i].speed)));
  }
  // Many GPUs are on average as fast as one of the catalogue.
  const Case many = case_of(
      "model: gpt2-medium\ntrain: {seq_len: 1024, global_batch: 1024}\nsoftware: torch-ddp\n"
      "plan: {zero: 0, micro_batch: 1}\ncluster: {node: dgx-a100-80g, nodes: 128, jitter: {sigma: 0.05}}");
  for (const auto& gpu : many.cluster.odd_gpus) sum += std::log(gpu.speed);
  CHECK(std::abs(sum / 1024) < 4 * 0.05 / std::sqrt(1024.0));
}
