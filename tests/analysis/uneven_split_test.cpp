// Data-parallel ranks with unlike shares of the global batch, and pipeline stages with unlike numbers of layers.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "sim/memory/ledger.h"
#include "tests/support/cases.h"

using namespace foretrain;
using namespace foretrain::testing;

namespace {

const std::string kLlama =
    "model: {arch: llama, layers: 8, hidden: 2048, heads: 16, kv_heads: 8, ffn: 5632, vocab: 32000}\n";
const std::string kLikeTwo = "cluster: {gpu: a100-sxm4-80gb, gpus: 2, gpus_per_node: 2, intra: nvswitch}\n";
// The second GPU runs at half the speed of the first.
const std::string kSlowSecond =
    "cluster: {gpu: a100-sxm4-80gb, gpus: 2, gpus_per_node: 2, intra: nvswitch, overrides: [{node: 0, index: 1, "
    "factor: "
    "0.5}]}\n";
// Two nodes, one of A100 and one of H100.
const std::string kMixedNodes =
    "cluster: {gpu: a100-sxm4-80gb, gpus: 16, gpus_per_node: 8, intra: nvswitch, nics: 8, nic_gbps: 200, net: "
    "infiniband, overrides: [{gpu: h100-sxm5-80gb, node: 1}]}\n";

std::string train(int batch) {
  return fmt::format("train: {{seq_len: 1024, global_batch: {}, precision: bf16}}\n", batch);
}

Case without_overheads(const std::string& yaml) {
  Case subject = case_of(yaml);
  subject.software = testing::without_overheads(subject.software);
  return subject;
}

std::vector<Plan::Share> shares_of(const CaseReport& report) { return report.subject.plan.shares; }

}  // namespace

TEST_CASE("two GPUs take as long as the slower with its share, and then what they do together") {
  const auto run = [](int first, int second) {
    return simulate_plainly(without_overheads(
        kLlama + kSlowSecond + train(12) +
        fmt::format("software: torch-ddp\nplan: {{micro_batch: 1, micro_batches: [{}, {}], overlap: {{grad_reduce: "
                    "false}}}}",
                    first, second)));
  };
  // What a rank computes goes by its number of micro-batches alone, and of the slow one a micro-batch takes twice as
  // long. Rank classes come in the order of their first ranks.
  const CaseReport once = run(1, 11);
  const Time fast = once.per_class[0][Cause::compute], slow{once.per_class[1][Cause::compute].ps / 11};
  CHECK(slow.seconds() == doctest::Approx(2 * fast.seconds()).epsilon(1e-6));
  const Time together = once.step_time - once.per_class[1][Cause::compute];
  CHECK(together > Time::zero());
  for (int first = 2; first < 12; ++first) {
    CAPTURE(first);
    const CaseReport report = run(first, 12 - first);
    REQUIRE(report.per_class.size() == 2);
    CHECK(report.per_class[0][Cause::compute] == fast * first);
    CHECK(report.per_class[1][Cause::compute] == slow * (12 - first));
    CHECK(report.step_time - std::max(fast * first, slow * (12 - first)) == together);
    CHECK(report.samples_per_second * report.step_time.seconds() == doctest::Approx(12));
  }
}

TEST_CASE("an even split, however it is written, is the plain one") {
  const std::string ddp = "software: torch-ddp\nplan: {zero: 0, micro_batch: 2";
  const CaseReport plain = simulate_plainly(case_of(kLlama + kMixedNodes + train(64) + ddp + "}"));
  for (const char* even : {", micro_batches: 2", ", micro_batches: {a100-sxm4-80gb: 2, h100-sxm5-80gb: 2}",
                           ", micro_batches: [2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2]"}) {
    CAPTURE(even);
    const CaseReport report = simulate_plainly(case_of(kLlama + kMixedNodes + train(64) + ddp + even + "}"));
    CHECK(shares_of(report).empty());
    CHECK(report.step_time == plain.step_time);
    CHECK(report.step.simulated_ranks == plain.step.simulated_ranks);
    CHECK(report.memory.front().needed == plain.memory.front().needed);
  }
  // Nothing to balance.
  const CaseReport alike = simulate_plainly(case_of(kLlama + kLikeTwo + train(64) + ddp + "}"));
  const CaseReport balanced = simulate_plainly(case_of(kLlama + kLikeTwo + train(64) + ddp + ", micro_batches: auto}"));
  CHECK(shares_of(balanced).empty());
  CHECK(balanced.step_time == alike.step_time);
}

TEST_CASE("what is not written of the shares follows from the batch") {
  const auto plan = [](int batch, const std::string& said) {
    const std::string of_train = batch > 0 ? train(batch) : "train: {seq_len: 1024, precision: bf16}\n";
    return case_of(kLlama + kLikeTwo + of_train + "software: torch-ddp\nplan: {" + said + "}");
  };
  using Shares = std::vector<Plan::Share>;
  CHECK(plan(16, "micro_batches: [3, 5]").plan.shares == Shares{{2, 3}, {2, 5}});
  CHECK(plan(16, "micro_batch: [1, 3]").plan.shares == Shares{{1, 4}, {3, 4}});
  CHECK(plan(17, "micro_batch: [1, 3], micro_batches: [2, 5]").plan.shares == Shares{{1, 2}, {3, 5}});
  CHECK(plan(0, "micro_batch: [1, 3], micro_batches: [2, 5]").train.global_batch == 17);
  CHECK(plan(0, "micro_batches: [2, 5]").train.global_batch == 7);
  CHECK(plan(0, "micro_batch: [2, 5]").train.global_batch == 7);
}

TEST_CASE("uneven splits fold exactly, add up and give back what they take") {
  const std::string core = "software: megatron-core\nplan: {";
  const std::string by_gpu = "micro_batches: {a100-sxm4-80gb: 3, h100-sxm5-80gb: 5}";
  const std::string tensor = "tp: 4, sequence_parallel: true, ";
  struct Kind {
    std::string name, model, rest;
    int classes;  // 0: not looked at
  };
  const std::vector<Kind> kinds = {
      {"data parallel", kLlama, train(64) + "software: torch-ddp\nplan: {micro_batch: 1, " + by_gpu + "}", 2},
      {"without overlap", kLlama,
       train(64) + "software: torch-ddp\nplan: {micro_batch: 1, overlap: {grad_reduce: false}, " + by_gpu + "}", 2},
      {"ZeRO-1 with gathers beside the forward pass", kLlama,
       train(64) + core + "zero: 1, micro_batch: 1, overlap: {grad_reduce: true, param_gather: true}, " + by_gpu + "}",
       2},
      {"ZeRO-1, gathers at the end", kLlama,
       train(64) + "software: deepspeed\nplan: {zero: 1, micro_batch: 1, " + by_gpu + "}", 2},
      {"ZeRO-2 with unlike sizes", kLlama,
       train(64) + "software: deepspeed\nplan: {zero: 2, recompute: full, micro_batch: {a100-sxm4-80gb: 1, "
                   "h100-sxm5-80gb: 3}}",
       2},
      {"FSDP with unlike sizes", kLlama,
       train(64) + "software: torch-fsdp\nplan: {zero: 3, micro_batch: {a100-sxm4-80gb: 1, h100-sxm5-80gb: 3}}", 2},
      {"HSDP", kLlama,
       train(64) + "software: torch-fsdp\nplan: {zero: 3, shard_group: 8, micro_batch: {a100-sxm4-80gb: 1, "
                   "h100-sxm5-80gb: 3}}",
       0},
      {"offload", kLlama,
       train(64) + "software: deepspeed\nplan: {zero: 1, offload: optimizer, micro_batch: 1, " + by_gpu + "}", 0},
      {"tensor and data parallel on the same links", kLlama,
       train(16) + core + tensor + "zero: 1, micro_batch: 1, micro_batches: [2, 3, 5, 6]}", 0},
      {"context parallel", kLlama, train(16) + core + "cp: 4, zero: 1, micro_batch: 1, micro_batches: [2, 3, 5, 6]}",
       0},
      {"a pipeline in every node", kLlama,
       train(16) + core + tensor + "pp: 2, order: tp-cp-ep-pp-dp, micro_batch: 1, micro_batches: [5, 11]}", 4},
      {"a pipeline of unlike layers over the nodes", kLlama,
       train(16) + core + tensor + "pp: 2, layers: [3, 5], micro_batch: 1, micro_batches: [6, 10]}", 0},
      {"unlike sizes in a pipeline", kLlama,
       train(16) + core + tensor + "pp: 2, order: tp-cp-ep-pp-dp, micro_batch: [1, 3], micro_batches: [4, 4]}", 0},
      {"interleaved", kLlama,
       train(16) + core + tensor + "pp: 2, vpp: 2, order: tp-cp-ep-pp-dp, micro_batch: 1, micro_batches: [6, 10]}", 0},
      {"zero bubble", kLlama,
       train(16) + "software: megatron-lm\nsoftware_version: zero bubble\nplan: {" + tensor +
           "pp: 2, schedule: zero-bubble, order: tp-cp-ep-pp-dp, micro_batch: 1, micro_batches: [5, 11]}",
       0},
      {"zero bubble made to measure", kLlama,
       train(16) + "software: megatron-lm\nsoftware_version: zero bubble\nplan: {" + tensor +
           "pp: 2, schedule: zero-bubble-2p, order: tp-cp-ep-pp-dp, micro_batch: [1, 2], micro_batches: [4, 6]}",
       0},
      {"dualpipe", kLlama,
       train(16) + core + tensor +
           "pp: 2, schedule: dualpipe, vpp: 2, order: tp-cp-ep-pp-dp, micro_batch: 1, micro_batches: [4, 12]}",
       0},
      {"experts inside a data-parallel rank",
       "model: {arch: moe, layers: 4, hidden: 1024, heads: 8, ffn: 2816, vocab: 32000, experts: 8, top_k: 2, "
       "expert_ffn: 1408}\n",
       train(16) + core + "tp: 4, ep: 4, etp: 1, zero: 1, micro_batch: 1, micro_batches: [2, 3, 5, 6]}", 0},
  };
  for (const Kind& kind : kinds) {
    CAPTURE(kind.name);
    const Case subject = case_of(kind.model + kMixedNodes + kind.rest);
    REQUIRE(!subject.plan.shares.empty());
    const CaseReport folded = simulate_plainly(subject);
    const CaseReport unfolded = simulate_plainly(subject, Communicators::Folding::none);
    CHECK(folded.step_time == unfolded.step_time);
    for (std::size_t i = 0; i < kCauses; ++i) CHECK(folded.breakdown.parts[i] == unfolded.breakdown.parts[i]);
    CHECK(folded.breakdown.total() == folded.step_time);
    for (const Breakdown& rank : unfolded.per_class) CHECK(rank.total() == unfolded.step_time);
    if (kind.classes > 0) CHECK(folded.step.simulated_ranks == kind.classes);
    CHECK(folded.memory.front().needed == unfolded.memory.front().needed);
    // Every rank passes its own micro-batches, all of them once.
    std::int64_t sequences = 0;
    for (std::size_t rank = 0; rank < folded.step.stage.size(); ++rank) {
      std::int64_t forwards = 0;
      const Plan::Share share = folded.step.share[rank];
      std::vector<bool> seen(static_cast<std::size_t>(share.micro_batches));
      for (const engine::TaskId task : folded.step.compute_tasks[rank]) {
        const TaskInfo& info = folded.step.tasks[task.index()];
        if (info.kind != TaskKind::forward || info.chunk != 0) continue;
        auto one = seen.at(static_cast<std::size_t>(info.micro_batch));
        forwards += !one;
        one = true;
      }
      const bool either_copy = subject.plan.schedule == PipelineSchedule::dualpipe;
      CHECK(forwards == share.micro_batches / (either_copy ? 2 : 1));
      if (folded.step.stage[rank] == 0) sequences += share.sequences() * folded.step.multiplicity[rank];
      const StageMemory memory = stage_memories(with_share(folded.subject, share),
                                                folded.step.layouts)[static_cast<std::size_t>(folded.step.stage[rank])];
      CHECK(bytes_left(memory, folded.step, rank).total().value == doctest::Approx(memory.always.total().value));
    }
    CHECK(sequences == subject.train.global_batch * subject.plan.tp * subject.plan.cp);
  }
}

TEST_CASE("a split by speed is never slower than an even one, and as good as any") {
  std::mt19937 random(20250101);
  const auto pick = [&](int least, int most) {
    return least + static_cast<int>(random() % static_cast<unsigned>(most - least + 1));
  };
  for (int problem = 0; problem < 12; ++problem) {
    CAPTURE(problem);
    const int units = 2 * pick(3, 6);
    const std::string other =
        pick(0, 1) == 0 ? fmt::format("factor: {:.2f}", 0.01 * pick(40, 95)) : std::string("gpu: h100-sxm5-80gb");
    const std::string cluster = fmt::format(
        "cluster: {{gpu: a100-sxm4-80gb, gpus: 4, gpus_per_node: 2, intra: nvswitch, nics: 2, nic_gbps: 200, net: "
        "infiniband, overrides: [{{node: 1, {}}}]}}\n",
        other);
    const std::string model = kLlama + cluster + train(2 * units);
    const std::string plan =
        "software: torch-ddp\nplan: {micro_batch: 1, overlap: {grad_reduce: false}, micro_batches: ";
    const auto seconds = [&](const std::string& said) {
      return simulate_plainly(without_overheads(model + plan + said + "}")).step_time;
    };
    const Time balanced = seconds("auto"), even = seconds(fmt::format("{}", units / 2));
    CAPTURE(other);
    const Time rounding{10};  // of durations of unlike GPUs that come to the same
    CHECK(balanced <= even + rounding);
    Time best = even;
    for (int first = 1; first < units; ++first) {
      best = std::min(best, seconds(fmt::format("[{0}, {0}, {1}, {1}]", first, units - first)));
    }
    CHECK(balanced <= best + rounding);
  }
}

TEST_CASE("what all ranks do in every micro-batch is split by the size of micro-batches") {
  const auto run = [](const std::string& more) {
    return simulate_plainly(
        case_of(kLlama + kMixedNodes + train(128) + "software: torch-fsdp\nplan: {zero: 3, " + more + "}"));
  };
  const CaseReport even = run("micro_batch: 4"), balanced = run("micro_batch: 4, micro_batches: auto");
  const std::vector<Plan::Share> shares = shares_of(balanced);
  REQUIRE(shares.size() == 16);
  std::int64_t sequences = 0;
  for (const Plan::Share& share : shares) {
    CHECK(share.micro_batches == 2);
    sequences += share.sequences();
  }
  CHECK(sequences == 128);
  CHECK(shares.front().micro_batch < shares.back().micro_batch);
  CHECK(balanced.step_time < even.step_time);
}

TEST_CASE("where the size of micro-batches is open too, it is the fastest that fits") {
  const auto run = [](const std::string& size) {
    return simulate_plainly(case_of(kLlama + kMixedNodes + train(96) +
                                    "software: deepspeed\nplan: {zero: 1, micro_batches: auto, micro_batch: " + size +
                                    "}"))
        .step_time;
  };
  const Time open = run("auto");
  for (const char* size : {"1", "2", "3", "6"}) CHECK(open <= run(size));
}

TEST_CASE("every rank must fit its own share") {
  const std::string cluster =
      "cluster: {gpu: a100-sxm4-80gb, gpus: 2, gpus_per_node: 2, intra: nvswitch, overrides: [{gpu: a100-sxm4-40gb, "
      "node: 0, index: 1}]}\n";
  const auto run = [&](const std::string& sizes) {
    return simulate_plainly(case_of(kLlama + cluster + "train: {seq_len: 4096, global_batch: 48, precision: bf16}\n" +
                                    "software: torch-ddp\nplan: {micro_batch: " + sizes + "}"));
  };
  const CaseReport both = run("8"), first = run("[12, 4]"), second = run("[4, 12]");
  CHECK_FALSE(both.fits);
  CHECK(first.fits);
  CHECK_FALSE(second.fits);
  CHECK(both.capacity.value == 40960 * kMiB);
  // A rank's memory is that of an even split with its share.
  CHECK(second.memory.front().needed == run("12").memory.front().needed);
}

TEST_CASE("what is advised where unlike shares do not fit is legal for them") {
  const Case subject =
      case_of("model: llama-2-7b\nsoftware: deepspeed\ntrain: {seq_len: 2048, global_batch: 64, precision: bf16}\n" +
              kMixedNodes + "plan: {zero: 0, micro_batch: 1, micro_batches: {a100-sxm4-80gb: 3, h100-sxm5-80gb: 5}}");
  const CaseReport report = simulate_case(subject, environment(), {.with_advice = true, .with_elasticity = false});
  CHECK_FALSE(report.fits);
  REQUIRE(!report.changes.empty());
  for (const FittingChange& change : report.changes) {
    CHECK(change.what.find("zero: 2") == std::string::npos);
    CHECK(change.what.find("zero: 3") == std::string::npos);
  }
}

TEST_CASE("layers by speed make a pipeline of unlike stages as fast as any cut does") {
  const auto seconds = [](const std::string& layers) {
    Case subject = case_of(
        "model: llama-2-7b\nsoftware: megatron-lm\ntrain: {seq_len: 4096, global_batch: 64, precision: "
        "bf16}\n" +
        kMixedNodes + "plan: {pp: 2, tp: 8, sequence_parallel: true, micro_batch: 1, layers: " + layers + "}");
    return simulate_plainly(subject).step_time.seconds();
  };
  double best = seconds("[16, 16]");
  for (int first = 6; first < 16; ++first) best = std::min(best, seconds(fmt::format("[{}, {}]", first, 32 - first)));
  CHECK(seconds("auto") <= best * 1.02);
  // Chunks of a stage share what falls to it.
  const Case interleaved =
      case_of("model: llama-2-7b\nsoftware: megatron-lm\ntrain: {seq_len: 4096, global_batch: 64}\n" + kMixedNodes +
              "plan: {pp: 2, vpp: 2, tp: 8, micro_batch: 1, layers: auto}");
  const std::vector<std::int64_t> layers = simulate_plainly(interleaved).subject.plan.layers;
  REQUIRE(layers.size() == 4);
  CHECK(std::accumulate(layers.begin(), layers.end(), std::int64_t{0}) == 32);
  CHECK(std::abs(layers[0] - layers[2]) <= 1);
  CHECK(std::abs(layers[1] - layers[3]) <= 1);
  CHECK(layers[0] + layers[2] < layers[1] + layers[3]);
}

TEST_CASE("shares that no job can have are refused, with what would be right") {
  const auto said = [](const std::string& model, const std::string& cluster, int batch, const std::string& rest) {
    try {
      case_of(model + cluster + train(batch) + rest);
    } catch (const std::runtime_error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const auto ddp = [&](const std::string& plan) {
    return said(kLlama, kMixedNodes, 64, "software: deepspeed\nplan: {" + plan + "}");
  };
  const auto has = [](const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  };
  CHECK(has(ddp("micro_batches: [1, 2]"), "lists 2 numbers; legal: one for each of dp=16"));
  CHECK(has(ddp("micro_batch: 1, micro_batches: {a100-sxm4-80gb: 3, h100-sxm5-80gb: 6}"),
            "72 sequences a step over all data-parallel ranks, and global_batch=64"));
  CHECK(has(ddp("micro_batches: {a100-sxm4-80gb: 3}"), "says nothing of h100-sxm5-80gb"));
  CHECK(has(ddp("micro_batches: {t4: 3}"), "no GPU of this job; legal: a100-sxm4-80gb, h100-sxm5-80gb"));
  CHECK(has(ddp("micro_batch: {a100-sxm4-80gb: 1, h100-sxm5-80gb: 2}"), "no multiple of the 24 sequences"));
  CHECK(has(ddp("zero: 3, micro_batch: 1, micro_batches: {a100-sxm4-80gb: 3, h100-sxm5-80gb: 5}"),
            "communicate in every micro-batch"));
  CHECK(has(ddp("micro_batches: [0.5]"), "plan.micro_batches"));
  CHECK(has(ddp("micro_batches: 0"), "out of range"));
  CHECK(has(ddp("micro_batch: auto, micro_batches: [4]"), "micro_batch auto does not go with numbers"));
  CHECK(has(ddp("tp: 8, pp: 2, micro_batch: 1, micro_batches: {a100-sxm4-80gb: 64, h100-sxm5-80gb: 64}"),
            "GPUs of several kinds"));
  CHECK(has(ddp("micro_batch: 48, micro_batches: auto"), "cannot be dealt out to dp=16 ranks"));
  CHECK(has(said("model: {arch: moe, layers: 4, hidden: 1024, heads: 8, ffn: 2816, vocab: 32000, experts: 8, top_k: 2, "
                 "expert_ffn: 1408}\n",
                 kMixedNodes, 64, "software: megatron-core\nplan: {ep: 8, micro_batches: auto}"),
            "exchange tokens for experts"));
  CHECK(has(said(kLlama, kMixedNodes, 16,
                 "software: megatron-core\nplan: {tp: 4, pp: 2, schedule: dualpipe, vpp: 2, micro_batches: [2, 14]}"),
            "needs an even number of micro-batches on every data-parallel rank, 2 x pp=4"));
}
