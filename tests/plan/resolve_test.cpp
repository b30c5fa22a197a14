#include <doctest/doctest.h>

#include <string>
#include <string_view>

#include "sim/plan/plan.h"
#include "tests/support/text.h"

namespace foretrain {
namespace {

using testing::contains;

// A job that nothing is wrong with: a 32-layer model on four nodes of eight GPUs.
struct Job {
  Model model;
  Train train;
  ClusterDescription cluster;
  Software software;
  Diagnostics said;

  Job() {
    model.layers = 32;
    model.hidden = 4096;
    model.heads = 32;
    model.kv_heads = 8;
    model.head_dim = 128;
    model.ffn = 14336;
    model.vocab = 32000;
    train.seq_len = 2048;
    train.global_batch = 256;
    cluster.gpus = 32;
    cluster.gpus_per_node = 8;
    cluster.gpu.name = "a100";
    for (const Precision p : {Precision::fp32, Precision::tf32, Precision::fp16, Precision::bf16}) {
      cluster.gpu.dense_rate[static_cast<std::size_t>(p)] = FlopsPerSecond{1e14};
    }
    cluster.gpu.achieved.flash[2] = {0.6, 0.5, 400};
  }

  // The plan written in YAML, resolved.
  std::optional<Plan> plan(std::string_view yaml) {
    said = {};
    const auto node = config::parse_yaml(yaml, "plan.yaml", said);
    REQUIRE(node);
    const auto request = read_plan(*node, said);
    REQUIRE(request);
    return resolve_plan(*request, model, train, cluster, software, said);
  }
  std::string text() const { return testing::shown(said); }
  // What is said about a plan that must be refused.
  std::string refusal(std::string_view yaml) {
    CHECK_FALSE(plan(yaml));
    CHECK(said.has_errors());
    return text();
  }
  bool warns(std::string_view yaml, std::string_view part) {
    CHECK(plan(yaml));
    return text().find("warning: ") != std::string::npos && text().find(part) != std::string::npos;
  }
};

TEST_CASE("defaults of a plan") {
  Job job;
  job.software.overlap_grad_reduce = false;
  job.software.tp_overlap = true;
  const auto plan = job.plan("{tp: 4, pp: 2}");
  REQUIRE(plan);
  CHECK(plan->dp == 4);
  CHECK(plan->gpus() == 32);
  CHECK(plan->vpp == 1);
  CHECK(plan->schedule == PipelineSchedule::one_f_one_b);
  CHECK(plan->zero == 0);
  CHECK(plan->recompute.mode == Recompute::Mode::none);
  CHECK(plan->micro_batch == 1);
  CHECK_FALSE(plan->sequence_parallel);
  CHECK_FALSE(plan->overlap.grad_reduce);  // as the framework has it
  CHECK(plan->overlap.param_gather);
  CHECK(plan->overlap.tp);
  CHECK_FALSE(plan->overlap.p2p);
  CHECK(job.text().empty());
  CHECK(job.plan("{tp: 4, overlap: {grad_reduce: true, tp: false}}")->overlap.grad_reduce);
  CHECK_FALSE(job.plan("{tp: 4, overlap: {grad_reduce: true, tp: false}}")->overlap.tp);
}

TEST_CASE("interleaving is the schedule of several chunks a stage") {
  Job job;
  CHECK(job.plan("{pp: 4, vpp: 2}")->schedule == PipelineSchedule::interleaved);
  CHECK(job.plan("{pp: 4, vpp: 2}")->overlap.p2p);
  CHECK(job.plan("{pp: 4, schedule: gpipe}")->schedule == PipelineSchedule::gpipe);
  CHECK(contains(job.refusal("{pp: 4, schedule: interleaved}"),
                 "plan.yaml:1:19: error: schedule interleaved needs vpp of 2 or more; legal vpp: 2 to 8"));
  CHECK(contains(job.refusal("{schedule: interleaved}"), "needs pp and vpp of 2 or more"));
  CHECK(contains(job.refusal("{pp: 4, vpp: 2, schedule: 1f1b}"),
                 "plan.yaml:1:27: error: schedule 1f1b cannot run vpp=2 chunks a stage; legal: interleaved, or vpp=1"));
}

TEST_CASE("the degrees multiply to the GPUs") {
  Job job;
  CHECK(job.plan("{tp: 2, pp: 2, dp: 8}"));
  CHECK(
      contains(job.refusal("{tp: 2, pp: 2, dp: 4}"),
               "plan.yaml:1:20: error: tp=2 x pp=2 x dp=4 = 16 is not the cluster's 32 GPUs; legal: dp=8, or 16 GPUs"));
  CHECK(contains(job.refusal("{pp: 3}"),
                 "plan.yaml:1:6: error: tp=1 x pp=3 = 3 does not divide 32 GPUs; legal pp with "
                 "tp=1: 1, 2, 4, 8, 16, 32"));
  CHECK(contains(job.refusal("{tp: 64}"), "does not divide 32 GPUs"));
  job.cluster.gpus = 6;
  CHECK(
      contains(job.refusal("{tp: 4}"), "plan.yaml:1:6: error: tp=4 x pp=1 = 4 does not divide 6 GPUs; legal tp: 1, 2"));
}

TEST_CASE("tensor parallelism splits every width of the model") {
  Job job;
  job.cluster.gpus = 48;
  job.train.global_batch = 48 * 6;
  CHECK(contains(job.refusal("{tp: 3}"), "plan.yaml:1:6: error: tp=3 does not divide heads=32; legal: 1, 2, 4, 8, 16"));
  job.model.heads = 48;
  job.model.kv_heads = 4;
  job.model.ffn = 14400;
  job.model.hidden = 4608;
  CHECK(contains(job.refusal("{tp: 6}"),
                 "tp=6 neither divides kv_heads=4 nor is a multiple of it; legal: 1, 2, 4, 8, "
                 "12, 16, 24, 48"));
  job.model.kv_heads = 48;
  job.model.ffn = 14401;
  CHECK(contains(job.refusal("{tp: 3}"), "tp=3 does not divide ffn=14401; legal: 1"));
  job.model.ffn = 14400;
  job.model.hidden = 4096;
  CHECK(contains(job.refusal("{tp: 3}"), "tp=3 does not divide hidden=4096; legal: 1, 2, 4, 8, 16"));
}

TEST_CASE("fewer KV heads than ranks are copied") {
  Job job;
  CHECK(job.plan("{tp: 16}")->dp == 2);
  job.model.kv_heads = 1;
  CHECK(job.plan("{tp: 8}"));
}

TEST_CASE("tensor parallelism over nodes is legal, and said") {
  Job job;
  CHECK(job.warns("{tp: 16}", "plan.yaml:1:6: warning: tp=16 reaches over nodes of 8 GPUs"));
  CHECK(job.warns("{tp: 4, order: dp-tp-cp-ep-pp}", "tp=4 reaches over nodes"));
  job.plan("{tp: 8}");
  CHECK(job.text().empty());
  job.cluster.gpus_per_node = 6;
  job.cluster.gpus = 24;
  job.train.global_batch = 24;
  CHECK(job.warns("{tp: 4}", "reaches over nodes of 6 GPUs"));  // every second group does
  job.cluster.gpus_per_node = 24;
  job.plan("{tp: 8}");
  CHECK(job.text().empty());
}

TEST_CASE("a pipeline stage holds a layer at least") {
  Job job;
  job.model.layers = 12;
  CHECK(contains(job.refusal("{pp: 16}"), "plan.yaml:1:6: error: pp=16 is more than the 12 layers; legal: 1, 2, 4, 8"));
  CHECK(contains(job.refusal("{pp: 4, vpp: 4}"),
                 "plan.yaml:1:14: error: pp=4 x vpp=4 = 16 chunks are more than the 12 layers; legal vpp: 1 to 3"));
  CHECK(contains(job.refusal("{vpp: 2}"), "plan.yaml:1:7: error: vpp=2 needs a pipeline, and pp is 1"));
  CHECK(job.plan("{pp: 8}"));  // 12 layers over 8 stages: uneven is legal
}

TEST_CASE("a step of more micro-batches than anyone runs is refused, not simulated for minutes") {
  Job job;
  job.train.global_batch = 32'000'000'000;
  CHECK(contains(job.refusal("{micro_batch: 1}"),
                 "plan.yaml:1:15: error: global_batch=32000000000 makes 1000000000 micro-batches a step; at most 31250 "
                 "of 32 layers are simulated; use a larger micro_batch, or a smaller global_batch"));
  job.train.global_batch = 32 * 31'250;
  CHECK(job.plan("{micro_batch: 1}"));
}

TEST_CASE("the batch is cut evenly") {
  Job job;
  job.train.global_batch = 96;
  CHECK(job.plan("{micro_batch: 3}"));
  CHECK(contains(
      job.refusal("{micro_batch: 2}"),
      "plan.yaml:1:15: error: global_batch=96 is no multiple of dp=32 x micro_batch=2 = 64; legal micro_batch: "
      "1, 3; legal dp: 1, 2, 4, 8, 16; legal global_batch: 64 or 128"));
  job.train.global_batch = 10;
  CHECK(contains(job.refusal("{tp: 8}"),
                 "legal micro_batch: none with this dp; legal dp: 1, 2; legal global_batch: 8 or 12"));
  CHECK(contains(job.refusal("{tp: 2}"), "legal global_batch: 16"));
  job.train.global_batch = 0;  // not given
  CHECK(job.plan("{micro_batch: 7}")->micro_batch == 7);
}

TEST_CASE("the interleaved schedule runs uneven groups of micro-batches with a warning") {
  Job job;
  job.train.global_batch = 96;  // dp 8: 12 micro-batches
  CHECK(job.plan("{pp: 4, vpp: 2}"));
  CHECK(job.said.all().empty());
  CHECK(job.plan("{pp: 4, vpp: 2, micro_batch: 2}"));
  CHECK(contains(job.text(), "plan.yaml:1:30: warning: 6 micro-batches are no multiple of pp=4"));
}

TEST_CASE("schedules of two chunks a stage") {
  Job job;
  job.model.layers = 12;
  CHECK(job.plan("{pp: 4, schedule: zero-bubble-v}")->vpp == 2);
  CHECK(job.plan("{pp: 4, schedule: zero-bubble-v}")->overlap.p2p);
  CHECK(job.plan("{pp: 4, schedule: dualpipe-v}")->model_chunks() == 8);
  CHECK(job.plan("{pp: 4, schedule: dualpipe}")->model_chunks() == 4);
  CHECK(contains(job.refusal("{schedule: zero-bubble-v}"), "schedule zero-bubble-v needs a pipeline, and pp is 1"));
  CHECK(contains(job.refusal("{pp: 2, vpp: 3, schedule: dualpipe-v}"),
                 "schedule dualpipe-v runs two chunks a stage, and vpp is 3; legal: vpp=2"));
  CHECK(contains(job.refusal("{pp: 4, vpp: 2, schedule: zero-bubble}"), "schedule zero-bubble cannot run vpp=2"));
  CHECK(contains(job.refusal("{pp: 8, schedule: zero-bubble-v}"), "16 chunks are more than the 12 layers"));
  CHECK(job.plan("{pp: 8, schedule: dualpipe}"));
  job.train.global_batch = 48;  // dp 8: 6 micro-batches
  CHECK(contains(job.refusal("{pp: 4, schedule: dualpipe-v}"),
                 "schedule dualpipe-v needs 2 x pp=8 micro-batches or more, and global_batch=48 gives 6"));
  job.train.global_batch = 72;
  CHECK(contains(
      job.refusal("{pp: 4, schedule: dualpipe}"),
      "schedule dualpipe needs an even number of micro-batches, 2 x pp=8 or more, and global_batch=72 gives 9"));
}

TEST_CASE("layers are dealt out as the plan says") {
  Job job;
  job.model.layers = 12;
  CHECK(layers_of_chunks(*job.plan("{pp: 2, layers: [7, 5]}"), job.model) == std::vector<std::int64_t>{7, 5});
  CHECK(contains(job.refusal("{pp: 2, layers: [7, 6]}"),
                 "layers lists 2 chunks with 13 layers in all; legal: 2 chunks (pp=2) with the model's 12 layers"));
  CHECK(contains(job.refusal("{pp: 4, vpp: 2, layers: [6, 6]}"), "legal: 8 chunks (pp=4 x vpp=2)"));
  CHECK(contains(job.refusal("{pp: 2, layers: [6, 6], ends_as_layers: 2}"), "write one of them"));
  // 14 over 14 chunks: the ends hold none.
  const auto ends = layers_of_chunks(*job.plan("{pp: 2, vpp: 7, ends_as_layers: 2}"), job.model);
  CHECK(ends.front() == 0);
  CHECK(ends[1] == 1);
  CHECK(ends.back() == 0);
  CHECK(
      contains(job.refusal("{pp: 4, vpp: 4, ends_as_layers: 2}"), "16 chunks are more than the 12 layers and 2 ends"));
}

TEST_CASE("sharding") {
  Job job;
  CHECK(job.plan("{zero: 3}")->shard_ranks() == 32);
  CHECK(job.plan("{zero: 1, pp: 4}")->zero == 1);
  const std::string refused = job.refusal("{zero: 3, pp: 4}");
  CHECK(contains(refused,
                 "plan.yaml:1:8: error: plan.zero=3 with plan.pp above 1 (a stage would scatter gradients and "
                 "gather weights once for every micro-batch; legal: zero 0 or 1, or pp=1)"));
  CHECK(job.said.all().back().severity == Severity::unsupported);
  CHECK(contains(job.refusal("{zero: 2, pp: 4}"), "plan.zero=2 with plan.pp above 1"));

  const auto single = job.plan("{zero: 3, tp: 32}");
  REQUIRE(single);
  CHECK(single->zero == 0);
  CHECK(contains(job.text(), "note: zero=3 shards nothing over a single data-parallel rank"));

  CHECK(job.plan("{zero: 3, shard_group: 8}")->shard_ranks() == 8);
  CHECK(job.plan("{zero: 3, shard_group: 32}")->shard_group == 0);
  CHECK(contains(job.refusal("{zero: 3, shard_group: 5}"),
                 "plan.yaml:1:24: error: shard_group=5 does not divide dp=32; legal: 1, 2, 4, 8, 16, 32"));
  CHECK(job.warns("{shard_group: 8}", "shard_group has no effect with zero=0"));
}

TEST_CASE("sequence parallelism") {
  Job job;
  CHECK(job.plan("{tp: 8, sequence_parallel: true}")->sequence_parallel);
  CHECK(job.warns("{sequence_parallel: true}", "plan.yaml:1:21: warning: sequence_parallel has no effect with tp=1"));
  CHECK_FALSE(job.plan("{sequence_parallel: true}")->sequence_parallel);
  job.train.seq_len = 2047;
  CHECK(contains(
      job.refusal("{tp: 8, sequence_parallel: true}"),
      "plan.yaml:1:28: error: seq_len=2047 is no multiple of tp=8, which sequence_parallel needs; legal: seq_len "
      "2048"));
  CHECK(job.plan("{tp: 8, sequence_parallel: false}"));
}

TEST_CASE("recomputed blocks are layers of a stage") {
  Job job;
  CHECK(job.plan("{recompute: {blocks: 32}}")->recompute.blocks == 32);
  CHECK(job.plan("{pp: 4, recompute: {blocks: 8}}"));
  CHECK(contains(
      job.refusal("{pp: 4, recompute: {blocks: 9}}"),
      "plan.yaml:1:20: error: recompute blocks=9 is more than the 8 layers of a pipeline stage; legal: 0 to 8"));
}

TEST_CASE("the GPU computes in the precision, or it is said") {
  Job job;
  job.train.precision = Precision::fp8;
  CHECK(contains(job.refusal("{}"), "precision fp8 does not run on a100; legal: fp32, tf32, fp16, bf16"));
  job.train.precision = Precision::bf16;
  job.cluster.gpu.dense_rate[static_cast<std::size_t>(Precision::bf16)].reset();
  CHECK(job.warns("{}", "a100 has no bf16 tensor cores: products run at the fp32 rate"));
  job.cluster.gpu.dense_rate = {};
  job.refusal("{}");
}

TEST_CASE("the GPU has the attention kernel, or it is said") {
  Job job;
  job.train.attention = AttentionKernel::flash3;
  CHECK(job.warns("{}", "attention flash3 is not known on a100: the nearest of flash2 stands in"));
  job.cluster.gpu.achieved.flash = {};
  CHECK(contains(job.refusal("{}"), "no flash attention kernel is known for a100; legal attention: standard"));
  job.train.attention = AttentionKernel::standard;
  CHECK(job.plan("{}"));
}

TEST_CASE("all that is wrong is said at once") {
  Job job;
  job.refusal("{tp: 3, pp: 64, vpp: 2, recompute: {blocks: 100}, sequence_parallel: true}");
  CHECK(job.said.error_count() >= 5);
}

TEST_CASE("extreme degrees are refused without overflow") {
  Job job;
  job.refusal("{tp: 1048576, pp: 1048576, vpp: 1048576, dp: 1048576, micro_batch: 1000000, shard_group: 1048576}");
  job.train.global_batch = 1000000000;
  CHECK(contains(job.refusal("{micro_batch: 999983}"), "is no multiple of"));
}

TEST_CASE("experts must divide over the ranks, and the message says how") {
  Job job;
  CHECK(job.refusal("ep: 2").find("ep=2 needs a model with experts; legal: 1") != std::string::npos);
  job.model.experts = 8;
  job.model.top_k = 2;
  job.model.expert_ffn = 1536;
  CHECK(job.plan("{ep: 8, zero: 1}")->ep == 8);
  CHECK(job.refusal("ep: 3").find("ep=3 does not divide experts=8; legal: 1, 2, 4, 8") != std::string::npos);
  CHECK(job.refusal("{ep: 8, pp: 8}").find("ep=8 does not divide the 4 ranks of a stage") != std::string::npos);
  CHECK(job.refusal("{ep: 8, etp: 8}").find("legal: 1, 2, 4") != std::string::npos);
  CHECK(job.refusal("{ep: 8, tp: 2, sequence_parallel: false}").find("need sequence_parallel") != std::string::npos);
  CHECK(job.plan("{ep: 8, tp: 2}")->sequence_parallel);
  CHECK_FALSE(job.plan("{ep: 8, tp: 1}")->sequence_parallel);
  const auto split = job.plan("{ep: 8, tp: 4, sequence_parallel: true}");
  REQUIRE(split);
  CHECK(split->etp == 4);  // as tp, which is Megatron-Core's default
  CHECK(split->expert_data_ranks() == 1);
  // 8 x 8 are more than the 32 ranks: the experts are not split.
  const auto whole = job.plan("{ep: 8, tp: 8, sequence_parallel: true}");
  REQUIRE(whole);
  CHECK(whole->etp == 1);
  CHECK(job.text().find("etp is taken as 1") != std::string::npos);
  job.software.experts.tensor_parallel = false;
  CHECK(job.plan("{ep: 8, tp: 4, sequence_parallel: true}")->etp == 1);
}

TEST_CASE("a copy of the sharded state holds all experts") {
  Job job;
  job.model.experts = 8;
  job.model.top_k = 2;
  job.model.expert_ffn = 1536;
  const auto plan = job.plan("{ep: 4, zero: 3, shard_group: 8}");
  REQUIRE(plan);
  CHECK(plan->shard_ranks() == 8);
  CHECK(plan->expert_shard_ranks() == 2);
  CHECK(plan->expert_data_ranks() == 8);
  CHECK(contains(job.refusal("{ep: 8, zero: 3, shard_group: 4}"), "shard_group=4 must hold all experts"));
  CHECK(contains(job.text(), "legal: 8, 16, 32"));
}

TEST_CASE("a capacity takes the place of an imbalance") {
  Job job;
  CHECK(contains(job.refusal("capacity_factor: 1.25"), "capacity_factor needs a model with experts"));
  job.model.experts = 8;
  job.model.top_k = 2;
  job.model.expert_ffn = 1536;
  CHECK(job.plan("{ep: 8, expert_imbalance: 1.5}")->expert_load() == 1.5);
  CHECK(job.plan("{ep: 8, capacity_factor: 1.25}")->expert_load() == 1.25);
  CHECK(job.warns("{ep: 8, capacity_factor: 1.25, expert_imbalance: 1.5}", "expert_imbalance has no effect"));
}

TEST_CASE("heads are dealt to whole ranks") {
  Job job;  // 32 heads, 8 key-value heads
  CHECK(job.plan("{cp: 8, cp_kind: ulysses}")->context == ContextParallel::ulysses);
  CHECK(job.plan("{cp: 16, cp_kind: ulysses}"));
  CHECK(job.plan("{tp: 8, cp: 4, cp_kind: ulysses}"));
  job.model.heads = 24;
  CHECK(contains(
      job.refusal("{cp: 16, cp_kind: ulysses}"),
      "cp=16 with cp_kind ulysses deals out the 24 heads (kv_heads 8) that tp=1 leaves a rank; legal cp: 1, 2, "
      "4, 8, 24"));
  // A ring takes any even split of the sequence, however many heads there are.
  CHECK(job.plan("{cp: 16, cp_kind: ring}"));
}

TEST_CASE("windows are not passed round a ring") {
  Job job;
  job.model.window = 512;
  CHECK(job.plan("{cp: 4}")->context == ContextParallel::all_gather);
  CHECK(contains(job.text(), "cp_kind is taken as all-gather"));
  CHECK(job.plan("{cp: 4, cp_kind: ulysses}"));
  CHECK(contains(job.refusal("{cp: 4, cp_kind: ring}"), "legal: all-gather, ulysses"));
}

TEST_CASE("an update in the backward pass needs the whole gradient there") {
  Job job;
  job.train.optimizer_in_backward = true;
  job.train.clip_gradients = false;
  job.train.global_batch = 32;
  CHECK(job.plan("{micro_batch: 1}"));
  CHECK(contains(job.refusal("{micro_batch: 1, pp: 2}"), "legal: pp=1"));
  job.train.global_batch = 64;
  CHECK(contains(job.refusal("{micro_batch: 1}"),
                 "global_batch=64 makes 2 of them; legal: global_batch: 32, or "
                 "micro_batch: 2"));
  job.train.global_batch = 32;
  job.train.clip_gradients = true;
  CHECK(contains(job.refusal("{micro_batch: 1}"), "legal: clip_gradients: false"));
}

TEST_CASE("a recipe of fp8 needs fp8, and modules a model that has them") {
  Job job;
  job.train.fp8.recipe = Fp8::Recipe::block;
  CHECK(contains(job.refusal("{}"), "train.fp8 is a recipe of precision fp8, and precision is bf16"));
  job.train.fp8 = {};
  CHECK(contains(job.refusal("recompute: {modules: [moe_act]}"), "experts (moe, moe_act)"));
  CHECK(contains(job.refusal("recompute: {modules: [shared_experts]}"), "shared experts (shared_experts)"));
  CHECK(contains(job.refusal("recompute: {modules: [mla_up_proj]}"), "latent attention (mla_up_proj, latent)"));
}

}  // namespace
}  // namespace foretrain
