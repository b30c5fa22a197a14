// ZeRO++: what travels, over which links, and what it takes.

#include <doctest/doctest.h>

#include <algorithm>
#include <optional>

#include "tests/support/cases.h"
#include "tests/support/refused.h"

using namespace foretrain;
using namespace foretrain::testing;

namespace {

std::string zeropp_job(const std::string& zeropp, const std::string& more = "recompute: none") {
  return "model: {arch: llama, layers: 8, hidden: 2048, heads: 16, kv_heads: 8, ffn: 5632, vocab: 32000}\n"
         "software: deepspeed\n"
         "cluster: {gpu: a100-sxm4-80gb, gpus: 16, gpus_per_node: 8, intra: nvswitch, nics: 1, nic_gbps: 100}\n"
         "train: {seq_len: 1024, global_batch: 16, precision: bf16}\n"
         "plan: {zero: 3, micro_batch: 1, " +
         more + (zeropp.empty() ? "" : ", zeropp: " + zeropp) + "}";
}

// Bytes that a rank sends in a step, by what for and to whom.
double bytes_sent(const CaseReport& report, TaskKind kind, std::optional<Purpose> purpose = {}) {
  double sum = 0;
  for (std::size_t t = 0; t < report.step.tasks.size(); ++t) {
    const TaskInfo& task = report.step.tasks[t];
    if (task.kind != kind) continue;
    const Communicator& communicator = report.step.communicators[task.actor];
    const std::vector<std::uint32_t>& members = communicator.rank_classes;
    if (purpose && communicator.purpose != *purpose) continue;
    if (std::find(members.begin(), members.end(), 0U) == members.end()) continue;  // not of the first rank
    sum += report.step.graph.cost(report.step.graph.cost_of(engine::TaskId(t))).work;
  }
  return sum;
}

double parameters(const CaseReport& report) { return report.step.layouts[0].parameters(); }

}  // namespace

TEST_CASE("quantised gathers move half of what 16-bit ones do, each of them 15/16 of the weights") {
  const CaseReport plain = simulate_plainly(case_of(zeropp_job(""))),
                   qwz = simulate_plainly(case_of(zeropp_job("{weights: true}")));
  const double n = parameters(plain);
  CHECK(bytes_sent(plain, TaskKind::shard_gather) == doctest::Approx(2 * n * 2 * 15 / 16));
  CHECK(bytes_sent(qwz, TaskKind::shard_gather) == doctest::Approx(2 * n * 1 * 15 / 16));
  CHECK(bytes_sent(qwz, TaskKind::gradient_reduce) == doctest::Approx(bytes_sent(plain, TaskKind::gradient_reduce)));
  CHECK(qwz.step_time < plain.step_time);  // two nodes over one slow NIC
}

TEST_CASE("with a second copy in every node the backward pass gathers inside it") {
  const CaseReport plain = simulate_plainly(case_of(zeropp_job("")));
  const CaseReport hpz = simulate_plainly(case_of(zeropp_job("{secondary: true}")));
  const double n = parameters(plain);
  CHECK(bytes_sent(hpz, TaskKind::shard_gather, Purpose::shard) == doctest::Approx(n * 2 * 15 / 16));
  CHECK(bytes_sent(hpz, TaskKind::shard_gather, Purpose::local) == doctest::Approx(n * 2 * 7 / 8));
  CHECK(hpz.memory[0].parts.weights.value - plain.memory[0].parts.weights.value == doctest::Approx(2 * n / 8));
  CHECK(hpz.step_time < plain.step_time);
}

TEST_CASE("the second copy lies on the host where the weights do, and comes from there") {
  const auto run = [](const std::string& zeropp) {
    return simulate_plainly(case_of(zeropp_job(zeropp, "recompute: none, offload: params")));
  };
  const CaseReport plain = run(""), hpz = run("{secondary: true}");
  const double n = parameters(plain);
  // A rank holds 1/16 of the weights and, of its node's copy, 1/8. One micro-batch: forward, then backward.
  CHECK(bytes_sent(plain, TaskKind::copy_from_host) == doctest::Approx(2 * (2 * n / 16)));
  CHECK(bytes_sent(hpz, TaskKind::copy_from_host) == doctest::Approx(2 * n / 16 + 2 * n / 8));
  CHECK(bytes_sent(hpz, TaskKind::copy_to_host) - bytes_sent(plain, TaskKind::copy_to_host) ==
        doctest::Approx(2 * n / 8));
  CHECK(hpz.memory[0].parts.weights.value == plain.memory[0].parts.weights.value);
  CHECK(hpz.host->parts.weights.value - plain.host->parts.weights.value == doctest::Approx(8 * 2 * n / 8));
}

TEST_CASE("quantised gradients cross a node as int4, and the network as a group's share of that") {
  const CaseReport qgz = simulate_plainly(case_of(zeropp_job("{gradients: true}")));
  const double n = parameters(qgz);
  CHECK(bytes_sent(qgz, TaskKind::gradient_reduce, Purpose::local) == doctest::Approx(n * 0.5 * 7 / 8));
  CHECK(bytes_sent(qgz, TaskKind::gradient_reduce, Purpose::across) == doctest::Approx(n * 0.5 / 8 * 1 / 2));
  CHECK(qgz.step_time < simulate_plainly(case_of(zeropp_job(""))).step_time);
}

TEST_CASE("inside one group gradients are scattered in 16 bits whatever was asked for") {
  const auto one_node = [](const std::string& zeropp) {
    return simulate_plainly(
        case_of("model: {arch: llama, layers: 8, hidden: 2048, heads: 16, kv_heads: 8, ffn: 5632, vocab: 32000}\n"
                "software: deepspeed\ncluster: {gpu: a100-sxm4-80gb, gpus: 8, gpus_per_node: 8, intra: nvswitch}\n"
                "train: {seq_len: 1024, global_batch: 8}\nplan: {zero: 3, micro_batch: 1" +
                zeropp + "}"));
  };
  CHECK(one_node(", zeropp: {gradients: true}").step_time == one_node("").step_time);
}

TEST_CASE("DeepSpeed before 0.14.3 wrote the second copy at every release, and waited for it") {
  const std::string job = zeropp_job("{secondary: true}", "recompute: full, offload: params");
  Case once = case_of(job);
  Case often = once;
  often.software.zeropp_rewrites_second_copy = true;
  const CaseReport now = simulate_plainly(once), before = simulate_plainly(often);
  const double n = parameters(now);
  // One micro-batch: gathers for the forward pass, its recompute and the backward pass; only layers are recomputed.
  double layers = 0;
  for (const Block& block : now.step.layouts[0].chunks[0].blocks)
    if (block.kind == Block::Kind::layer) layers += block.parameters();
  CHECK(bytes_sent(before, TaskKind::copy_to_host) - bytes_sent(now, TaskKind::copy_to_host) ==
        doctest::Approx(2 * (n + layers) / 8));
  // The hooks of 8 layers' two passes forward and one backward no longer hide.
  CHECK((before.step_time - now.step_time).seconds() > 3 * 8 * 2.2e-3);
  Diagnostics diagnostics;
  const auto loaded = [&](const char* name) {
    return load_software(data_folder().path + "/configs/software", name, {}, diagnostics)->zeropp_rewrites_second_copy;
  };
  CHECK(loaded("hf-deepspeed-0.14"));
  CHECK_FALSE(loaded("hf-deepspeed"));
}

TEST_CASE("on links that are no bottleneck, quantising costs more than it saves") {
  const std::string fast = "{arch: llama, layers: 8, hidden: 2048, heads: 16, kv_heads: 8, ffn: 5632, vocab: 32000}";
  const auto one_node = [&](const std::string& zeropp) {
    return simulate_plainly(case_of("model: " + fast +
                                    "\nsoftware: deepspeed\n"
                                    "cluster: {gpu: h100-sxm5-80gb, gpus: 8, gpus_per_node: 8, intra: nvswitch}\n"
                                    "train: {seq_len: 1024, global_batch: 8, precision: bf16}\n"
                                    "plan: {zero: 3, micro_batch: 1" +
                                    zeropp + "}"));
  };
  // A gather of int8 over NVLink saves n bytes at 370 GB/s, and its kernels move 3.4 n at 3 TB/s: the gain is small.
  const double plain = one_node("").step_time.seconds(), all = one_node(", zeropp: true").step_time.seconds();
  CHECK(all > 0.9 * plain);
}

TEST_CASE("fewer GPUs to compare with have smaller groups, one has none") {
  const CaseReport report = simulate_case(case_of(zeropp_job("true")), environment(), {.with_elasticity = false});
  CHECK(report.scaling_baseline_gpus == 1);
}

TEST_CASE("a group is the ranks of a node unless it is written, and divides the ranks") {
  CHECK(case_of(zeropp_job("true")).plan.zeropp == ZeroPlusPlus{true, true, true, 8});
  CHECK(case_of(zeropp_job("{secondary: true, group: 4}")).plan.zeropp == ZeroPlusPlus{false, false, true, 4});
  CHECK_FALSE(case_of(zeropp_job("false")).plan.zeropp.any());
  CHECK(refused(zeropp_job("{secondary: true, group: 3}"), "does not divide dp=16; legal: 2, 4, 8, 16"));
  CHECK(refused(zeropp_job("true", "shard_group: 8"), "legal: no shard_group"));
  std::string other = zeropp_job("true");
  CHECK(refused(other.replace(other.find("deepspeed"), 9, "torch-fsdp"), "legal: software: deepspeed"));
  std::string lower = zeropp_job("true");
  CHECK(refused(lower.replace(lower.find("zero: 3"), 7, "zero: 2"), "legal: zero: 3"));
}
