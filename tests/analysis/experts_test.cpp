#include <doctest/doctest.h>

#include <string>

#include "sim/cost/kernel.h"
#include "tests/support/cases.h"

using namespace foretrain;
using namespace foretrain::testing;

namespace {

const std::string kModel =
    "model: {arch: moe, layers: 4, hidden: 2048, heads: 16, kv_heads: 4, vocab: 32000, experts: 16, top_k: 2, "
    "expert_ffn: 1408}\n";

std::string nodes(int count, double gbps = 200, const std::string& gpu = "a100-sxm4-80gb") {
  return "cluster: {gpu: " + gpu + ", gpus: " + std::to_string(8 * count) +
         ", gpus_per_node: 8, intra: nvswitch, nics: 8, nic_gbps: " + std::to_string(gbps) + ", net: infiniband}\n";
}

std::string trained_on(int batch) { return "train: {seq_len: 2048, global_batch: " + std::to_string(batch) + "}\n"; }

// Neither the framework nor its host costs anything.
Case free_of_overheads(const std::string& yaml) {
  Case c = case_of(yaml);
  c.software = without_overheads(c.software);
  c.software.experts.host_forward_ms = c.software.experts.host_backward_ms = 0;
  return c;
}

double ep_seconds(const CaseReport& report) { return report.breakdown[Cause::ep_comm].seconds(); }

}  // namespace

TEST_CASE("expert parallelism costs what its exchanges cost, and a faster network makes it cheaper") {
  const std::string rest = kModel + "software: megatron-core\n" + trained_on(32);
  const CaseReport alone = simulate_plainly(case_of(rest + nodes(2) + "plan: {ep: 1, etp: 1, zero: 1}"));
  const CaseReport node = simulate_plainly(case_of(rest + nodes(2) + "plan: {ep: 8, zero: 1}"));
  const CaseReport across = simulate_plainly(case_of(rest + nodes(2) + "plan: {ep: 16, zero: 1}"));
  CHECK(ep_seconds(alone) == 0.0);
  CHECK(ep_seconds(node) > 0.0);
  CHECK(ep_seconds(across) > 2 * ep_seconds(node));
  Time slower = simulate_plainly(case_of(rest + nodes(2, 50) + "plan: {ep: 16, zero: 1}")).step_time;
  for (const double gbps : {75.0, 100.0, 150.0, 200.0}) {  // beyond, the GPU's PCIe link is the slowest
    const Time faster = simulate_plainly(case_of(rest + nodes(2, gbps) + "plan: {ep: 16, zero: 1}")).step_time;
    CHECK(faster < slower);
    slower = faster;
  }
  // One copy of a token to a node instead of one to every expert there.
  const CaseReport two_level =
      simulate_plainly(case_of(rest + nodes(2) + "plan: {ep: 16, zero: 1, expert_dispatch: two-level}"));
  CHECK(ep_seconds(two_level) < ep_seconds(across));
  // Every rank gets every token: more than the copies that it needs.
  const CaseReport gathered =
      simulate_plainly(case_of(rest + nodes(2) + "plan: {ep: 16, zero: 1, expert_dispatch: all-gather}"));
  CHECK(ep_seconds(gathered) > ep_seconds(two_level));
}

TEST_CASE("the time of an exchange is its volume over the rate of the NICs") {
  // 8 tokens' worth of everything else is left out: no overheads, and NICs so slow that nothing else matters.
  Case c = case_of(kModel + "software: megatron-core\n" + trained_on(16) + nodes(2, 1) +
                   "plan: {ep: 16, zero: 0, overlap: {grad_reduce: false}}");
  c.software = without_overheads(c.software);
  const CaseReport report = simulate_plainly(c);
  const double copies = 2048.0 * 2 * 2048 * 2;                  // bytes: tokens, top_k, hidden, element
  const double rate = 1e9 / 8 * environment().link_rates.rdma;  // of one NIC
  const double one = copies * 8.0 / 16.0 / rate;                // half of all copies leave the node
  // To the experts and back, forward and backward, in four layers.
  CHECK(ep_seconds(report) == doctest::Approx(one * 4 * 4).epsilon(0.01));
}

TEST_CASE("experts of fewer groups a token mean less over the network") {
  // A group of experts a node. On NICs so slow that nothing else matters, the time is what they carry.
  const auto exchanged = [](const std::string& groups) {
    return ep_seconds(simulate_plainly(
        case_of("model: {arch: moe, layers: 4, hidden: 2048, heads: 16, kv_heads: 4, vocab: 32000, experts: 64, "
                "top_k: 4, expert_ffn: 1408" +
                groups + "}\nsoftware: megatron-core\n" + trained_on(32) + nodes(4, 1) +
                "plan: {ep: 32, etp: 1, zero: 0, expert_dispatch: two-level, overlap: {grad_reduce: false}}")));
  };
  const double free = exchanged(""), two = exchanged(", expert_groups: 4, top_k_groups: 2"),
               one = exchanged(", expert_groups: 4, top_k_groups: 1");
  // Of the three other nodes a token crosses to 3 x (1 - C(48, 4) / C(64, 4)), 3 x 1/2 x (1 - C(16, 4) / C(32, 4)),
  // 3/4.
  const double missed = 48.0 * 47 * 46 * 45 / (64.0 * 63 * 62 * 61),
               in_other = 16.0 * 15 * 14 * 13 / (32.0 * 31 * 30 * 29);
  CHECK(two / free == doctest::Approx(0.5 * (1 - in_other) / (1 - missed)).epsilon(0.02));
  CHECK(one / free == doctest::Approx(0.25 / (1 - missed)).epsilon(0.02));
}

TEST_CASE("a rank holds its share of the experts") {
  const std::string rest = kModel + "software: megatron-core\n" + trained_on(32) + nodes(2);
  const auto memory = [&](const std::string& plan) { return simulate_plainly(case_of(rest + plan)).memory[0].parts; };
  const Case c = case_of(rest + "plan: {ep: 8, zero: 1}");
  const double experts = 4.0 * static_cast<double>(c.model.experts * c.model.expert_matrix_parameters());
  const double dense = static_cast<double>(c.model.parameters()) - experts;
  const MemoryParts whole = memory("plan: {ep: 1, zero: 0}");
  CHECK(whole.weights.value == doctest::Approx(2 * (dense + experts)));
  const MemoryParts spread = memory("plan: {ep: 8, zero: 0}");
  CHECK(spread.weights.value == doctest::Approx(2 * (dense + experts / 8)));
  CHECK(spread.optimizer.value == doctest::Approx(12 * (dense + experts / 8)));
  // ZeRO-1 shards the dense part over all 16 ranks, experts over the two that hold the same ones: 16 x less of either.
  const MemoryParts sharded = memory("plan: {ep: 8, zero: 1}");
  CHECK(sharded.optimizer.value == doctest::Approx(12 * (dense + experts) / 16));
  // An expert in two halves, on ranks that split the rest as well.
  const MemoryParts split = memory("plan: {tp: 2, sequence_parallel: true, ep: 4, etp: 2, zero: 0}");
  const double replicated = 4.0 * static_cast<double>(c.model.router_parameters() + 2 * c.model.hidden) + 2048;
  CHECK(split.weights.value == doctest::Approx(2 * ((dense - replicated) / 2 + replicated + experts / 8)));
}

TEST_CASE("busier experts cost more time and memory") {
  const std::string rest = kModel + "software: megatron-core\n" + trained_on(32) + nodes(2);
  CaseReport less = simulate_plainly(case_of(rest + "plan: {ep: 16, zero: 1}"));
  for (const char* factor : {"1.25", "1.5", "2"}) {
    const CaseReport more =
        simulate_plainly(case_of(rest + "plan: {ep: 16, zero: 1, expert_imbalance: " + factor + "}"));
    CHECK(more.step_time > less.step_time);
    CHECK(more.memory[0].parts.activations > less.memory[0].parts.activations);
    less = more;
  }
}

TEST_CASE("exchanges beside another micro-batch's layers cost less") {
  const std::string rest = kModel + "software: megatron-core\n" + trained_on(64) + nodes(2);
  const CaseReport exposed = simulate_plainly(case_of(rest + "plan: {ep: 16, zero: 1}"));
  const CaseReport hidden = simulate_plainly(case_of(rest + "plan: {ep: 16, zero: 1, overlap: {ep: true}}"));
  CHECK(ep_seconds(hidden) < ep_seconds(exposed));
  CHECK(ep_seconds(hidden) >= 0.29 * ep_seconds(exposed));
  CHECK(hidden.step_time < exposed.step_time);
}

TEST_CASE("experts' activation and casts take no time of their own where products do them") {
  for (const std::string precision : {"bf16", "fp8"}) {
    CAPTURE(precision);
    Case c = free_of_overheads(kModel + "software: megatron-core\n" + nodes(1, 200, "h100-sxm5-80gb") +
                               "plan: {ep: 8, zero: 1}\n" +
                               "train: {seq_len: 2048, global_batch: 16, precision: " + precision + "}");
    c.software.experts.grouped_kernel = true;
    c.software.forward.ffn = precision == "fp8" ? 0 : 2;  // the activation in one of them, casts in the other
    const Time apart = simulate_plainly(c).step_time;
    c.software.experts.fused_activation = true;
    CHECK(simulate_plainly(c).step_time < apart);
  }
}

TEST_CASE("a cast for every expert is issued as slowly as a product for every expert") {
  Case c = free_of_overheads(kModel + "software: megatron-core\n" + nodes(1, 200, "h100-sxm5-80gb") +
                             "plan: {ep: 1, zero: 1}\ntrain: {seq_len: 2048, global_batch: 8, precision: fp8}");
  c.software.experts.call_us = 0;
  const double quick = simulate_plainly(c).step_time.seconds();
  // So slow that neither products nor casts take any time beside it: 16 experts, four layers, two linear layers, each
  // with three products, a cast of its input and one of its output's gradient.
  c.software.experts.call_us = 1e4;
  CHECK(simulate_plainly(c).step_time.seconds() - quick == doctest::Approx(16 * 4 * 2 * (3 + 2) * 1e-2).epsilon(0.02));
}

TEST_CASE("biases of experts cost passes over the results of the experts that have them") {
  Case c =
      free_of_overheads(kModel + "software: megatron-core\n" + nodes(1) + "plan: {ep: 8, zero: 1}\n" + trained_on(8));
  c.software.experts.bias_forward = c.software.experts.bias_backward = 0;
  c.model.linear_biases = true;
  const double without = simulate_plainly(c).step_time.seconds();
  c.software.experts.bias_forward = 100;
  c.software.experts.bias_backward = 300;
  const double results = 2048.0 * 2 * 2048 * 2;  // bytes of a layer: tokens, top_k, hidden, element
  const double passes = streaming_time(c.cluster.gpu, {100 * results}, 0).total().value +
                        streaming_time(c.cluster.gpu, {300 * results}, 0).total().value;
  CHECK(simulate_plainly(c).step_time.seconds() - without == doctest::Approx(4 * passes).epsilon(0.02));
  c.model.linear_biases = false;
  CHECK(simulate_plainly(c).step_time.seconds() < without + passes);
}

TEST_CASE("what experts take from memory is given back") {
  for (const char* plan : {"plan: {ep: 8, zero: 1}", "plan: {ep: 8, zero: 3}", "plan: {pp: 2, vpp: 2, ep: 8, zero: 1}",
                           "plan: {tp: 2, sequence_parallel: true, ep: 8, etp: 1}"}) {
    CAPTURE(std::string(plan));
    const Case c = case_of(kModel + "software: megatron-core\n" + trained_on(32) + nodes(2) + plan);
    const CaseReport report = simulate_plainly(c);
    const auto memories = stage_memories(report.subject, report.step.layouts);
    for (std::size_t rank = 0; rank < report.step.stage.size(); ++rank) {
      const StageMemory& memory = memories[static_cast<std::size_t>(report.step.stage[rank])];
      CHECK(bytes_left(memory, report.step, rank).total().value == doctest::Approx(memory.always.total().value));
    }
  }
}

TEST_CASE("latent attention moves less over tensor-parallel links and keeps the mathematics") {
  const std::string rest =
      "software: megatron-core\ntrain: {seq_len: 4096, global_batch: 8}\n"
      "cluster: {gpu: h100-sxm5-80gb, gpus: 8, gpus_per_node: 8, intra: nvswitch}\n"
      "plan: {tp: 8, sequence_parallel: true, micro_batch: 1}";
  const std::string shape = "model: {arch: llama, layers: 4, hidden: 7168, heads: 128, ffn: 18432, vocab: 129280, ";
  const CaseReport latent = simulate_plainly(
      case_of(shape + "mla: {q_lora: 1536, kv_lora: 512, qk_nope: 128, qk_rope: 64, v: 128}}\n" + rest));
  const CaseReport plain = simulate_plainly(case_of(shape + "head_dim: 128}\n" + rest));
  CHECK(latent.breakdown[Cause::tp_comm] < plain.breakdown[Cause::tp_comm]);
  const Model& m = latent.subject.model;
  CHECK(m.attention_matrix_parameters() ==
        7168 * 1536 + 1536 * 128 * 192 + 7168 * (512 + 64) + 512 * 128 * (128 + 128) + 128 * 128 * 7168);
}
