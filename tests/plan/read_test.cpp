#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "sim/plan/plan.h"
#include "tests/support/text.h"

namespace foretrain {
namespace {

using testing::contains;

struct Reading {
  std::optional<PlanRequest> plan;
  std::optional<Train> train;
  Diagnostics said;

  std::vector<std::string> unsupported() const {
    std::vector<std::string> names;
    for (const Diagnostic& d : said.all())
      if (d.severity == Severity::unsupported) names.push_back(d.message.english());
    return names;
  }
  std::string text() const { return testing::shown(said); }
};

Reading plan(const std::string& yaml) {
  Reading r;
  const auto node = config::parse_yaml(yaml, "test.yaml", r.said);
  REQUIRE(node);
  r.plan = read_plan(*node, r.said);
  return r;
}

Reading train(const std::string& yaml) {
  Reading r;
  const auto node = config::parse_yaml(yaml, "test.yaml", r.said);
  REQUIRE(node);
  r.train = read_train(*node, r.said);
  return r;
}

TEST_CASE("every key of a plan is read") {
  const Reading r = plan(
      "{tp: 4, pp: 2, vpp: 3, dp: 8, sequence_parallel: true, schedule: interleaved, zero: 1, shard_group: 4,\n"
      " recompute: full, micro_batch: 2, order: [tp, cp, ep, pp, dp],\n"
      " overlap: {grad_reduce: false, param_gather: true, tp: true, ep: false, p2p: false}}");
  REQUIRE(r.plan);
  CHECK(r.plan->tp == 4);
  CHECK(r.plan->pp == 2);
  CHECK(r.plan->vpp == 3);
  CHECK(r.plan->dp == 8);
  CHECK(r.plan->sequence_parallel == true);
  CHECK(r.plan->schedule == PipelineSchedule::interleaved);
  CHECK(r.plan->zero == 1);
  CHECK(r.plan->shard_group == 4);
  CHECK(r.plan->recompute->mode == Recompute::Mode::full);
  CHECK(r.plan->micro_batch == 2);
  CHECK(r.plan->order->at(3) == Dimension::pp);
  CHECK(r.plan->overlap_grad_reduce == false);
  CHECK(r.plan->overlap_param_gather == true);
  CHECK(r.plan->overlap_tp == true);
  CHECK(r.plan->overlap_p2p == false);
  CHECK(r.plan->position_of("zero").line == 1);
  CHECK(r.plan->position_of("recompute").line == 2);
}

TEST_CASE("absent keys stay open") {
  const Reading r = plan("{}");
  REQUIRE(r.plan);
  CHECK_FALSE(r.plan->tp);
  CHECK_FALSE(r.plan->zero);
  CHECK_FALSE(r.plan->micro_batch);
  CHECK_FALSE(r.plan->recompute);
  CHECK_FALSE(r.plan->overlap_tp);
}

TEST_CASE("forms of recompute, order and micro_batch") {
  CHECK(plan("recompute: selective").plan->recompute->mode == Recompute::Mode::selective);
  CHECK(plan("recompute: {blocks: 5}").plan->recompute->blocks == 5);
  CHECK(plan("recompute: {blocks: 5}").plan->recompute->mode == Recompute::Mode::blocks);
  CHECK(plan("recompute: {blocks: 0}").plan->recompute->mode == Recompute::Mode::none);
  CHECK(plan("recompute: {modules: [norm, mlp]}").plan->recompute->mode == Recompute::Mode::modules);
  CHECK(plan("recompute: {modules: []}").plan->recompute->mode == Recompute::Mode::none);
  CHECK(plan("recompute: {saved: []}").plan->recompute->mode == Recompute::Mode::full);
  CHECK(contains(plan("recompute: {modules: [norms]}").text(),
                 "'norms' is no part of a layer; legal: core_attn, attention, layernorm"));
  CHECK(contains(plan("recompute: {saved: [norm]}").text(), "legal: qkv, attention, attention_out, mlp_in, mlp"));
  Software software;
  const auto redone = [&](const char* text) { return plan(text).plan->recompute->redone(software); };
  CHECK(redone("recompute: {modules: [mlp]}") == RedoneParts{.mlp_in = true, .activation = true, .mlp_out = true});
  CHECK(redone("recompute: {modules: [swiglu, layernorm]}") == RedoneParts{.norms = true, .activation = true});
  CHECK(redone("recompute: {saved: [qkv, attention, mlp]}") ==
        RedoneParts{.norms = true, .attention_out = true, .mlp_in = true, .activation = true, .experts = true});
  software.recompute_stops_early = true;
  CHECK(redone("recompute: {modules: [ffn]}") == RedoneParts{.mlp_in = true, .activation = true});
  CHECK_FALSE(redone("recompute: {saved: [qkv]}").mlp_out);
  CHECK(redone("recompute: selective") == RedoneParts{});
  CHECK(to_string(*plan("order: tp-dp-cp-ep-pp").plan->order) == "tp-dp-cp-ep-pp");
  CHECK(plan("order: [tp, dp, cp, ep, pp]").plan->order == plan("order: tp-dp-cp-ep-pp").plan->order);
  CHECK(plan("micro_batch: auto").plan->micro_batch_auto);
}

TEST_CASE("a plan says how experts are spread") {
  const Reading r = plan("{ep: 8, etp: 2, expert_dispatch: two-level, expert_imbalance: 1.25, overlap: {ep: true}}");
  REQUIRE(r.plan);
  CHECK(r.plan->ep == 8);
  CHECK(r.plan->etp == 2);
  CHECK(r.plan->expert_dispatch == Software::Experts::Dispatch::two_level);
  CHECK(r.plan->expert_imbalance == 1.25);
  CHECK(r.plan->overlap_ep == true);
  CHECK_FALSE(plan("expert_imbalance: 0.5").plan);
  CHECK_FALSE(plan("expert_dispatch: nccl").plan);
}

TEST_CASE("features that are not simulated are refused by name, all at once") {
  const Reading r = plan("{cp: 2, offload: {activations: nvme, gradients: nvme}}");
  CHECK_FALSE(r.plan);
  std::vector<std::string> names = r.unsupported();
  std::sort(names.begin(), names.end());
  CHECK(names == std::vector<std::string>{"plan.offload.activations=nvme (legal: cpu)",
                                          "plan.offload.gradients=nvme (legal: cpu)"});
  CHECK(plan("auto").plan.value().automatic);
  CHECK(plan("offload: {gradients: nvme}").unsupported() ==
        std::vector<std::string>{"plan.offload.gradients=nvme (legal: cpu)"});
}

TEST_CASE("every schedule is read by its name") {
  for (int i = 0; i < kPipelineSchedules; ++i) {
    const auto schedule = static_cast<PipelineSchedule>(i);
    CHECK(plan(std::string("schedule: ") + to_string(schedule)).plan->schedule == schedule);
  }
  CHECK(plan("schedule: zero-bubble-2p").plan->schedule == PipelineSchedule::zero_bubble_2p);
}

TEST_CASE("layers of the chunks") {
  CHECK(plan("layers: [7, 8, 0, 7]").plan->layers == std::vector<std::int64_t>{7, 8, 0, 7});
  CHECK(plan("ends_as_layers: 2").plan->ends_as_layers == 2);
  for (const char* wrong : {"layers: [7, -1]", "layers: [7, 8k]", "layers: [7, x]", "layers: [99999999999999999999]",
                            "layers: {a: 1}", "ends_as_layers: 3"}) {
    CAPTURE(std::string(wrong));
    CHECK_FALSE(plan(wrong).plan);
  }
}

TEST_CASE("ZeRO++ is all of it, or the parts that are named") {
  CHECK(plan("zeropp: true").plan->zeropp == ZeroPlusPlus{true, true, true, 0});
  CHECK(plan("zeropp: {weights: true}").plan->zeropp == ZeroPlusPlus{true, false, false, 0});
  // A group is for the gradients if they are sent so, else for the second copy.
  CHECK(plan("zeropp: {gradients: true, group: 4}").plan->zeropp == ZeroPlusPlus{false, true, false, 4});
  CHECK(plan("zeropp: {group: 4}").plan->zeropp == ZeroPlusPlus{false, false, true, 4});
  CHECK(plan("zeropp: {group: 4, secondary: false}").plan->zeropp == ZeroPlusPlus{false, false, false, 4});
  CHECK_FALSE(plan("zeropp: {group: 1}").plan);
  CHECK_FALSE(plan("zeropp: {qwz: true}").plan);
  CHECK_FALSE(plan("zeropp: int8").plan);
}

TEST_CASE("features that are switched off are no reason to refuse") {
  CHECK(plan("{cp: 1, ep: 1, etp: 1, offload: none, ends_as_layers: 0, zeropp: false, cp_kind: ring}").plan);
  CHECK(plan("{offload: {optimizer: none}, overlap: {ep: true}}").plan);
  CHECK(train("{peft: none, master_weights: fp32}").train);
  CHECK(train("{peft: {kind: none}}").train);
}

TEST_CASE("wrong plans are reported where they are wrong") {
  CHECK(contains(plan("tp: 0").text(), "test.yaml:1:5: error: plan.tp=0 is out of range"));
  CHECK(contains(plan("zero: 4").text(), "plan.zero=4 is out of range"));
  CHECK(contains(plan("tpp: 2").text(), "unknown key 'tpp' in plan"));
  CHECK(contains(plan("schedule: 1f1x").text(), "did you mean '1f1b'"));
  CHECK(contains(plan("order: [tp, tp, ep, dp, pp]").text(), "must name each of tp, cp, ep, dp, pp once"));
  CHECK(contains(plan("order: tp-dp-").text(), "must name each of"));
  CHECK(contains(plan("order: []").text(), "must name each of"));
  CHECK(contains(plan("micro_batch: big").text(), "micro_batch"));
  CHECK(contains(plan("recompute: {blocks: 2, modules: [norm]}").text(), "several rules at once"));
  CHECK(contains(plan("overlap: true").text(), "plan.overlap must be a map"));
  CHECK(contains(plan("[1, 2]").text(), "plan must be a map"));
  CHECK_FALSE(plan("tp: 0").plan);
}

TEST_CASE("every key of train is read") {
  const Reading r = train(
      "{seq_len: 4096, global_batch: 64, precision: fp16, optimizer: sgd, attention: flash, tokens: 1e9,\n"
      " clip_gradients: false}");
  REQUIRE(r.train);
  CHECK(r.train->seq_len == 4096);
  CHECK(r.train->global_batch == 64);
  CHECK(r.train->precision == Precision::fp16);
  CHECK(r.train->optimizer == Optimizer::sgd);
  CHECK(r.train->attention == AttentionKernel::flash1);
  CHECK(r.train->tokens == 1e9);
  CHECK_FALSE(r.train->clip_gradients);
  CHECK(train("attention: flash3").train->attention == AttentionKernel::flash3);
  CHECK(train("precision: tf32").train->precision == Precision::tf32);
  CHECK(train("{}").train->global_batch == 0);
}

TEST_CASE("training features that are not simulated are refused by name, all at once") {
  const Reading r = train(
      "{precision: mxfp8, optimizer: adamw, peft: {kind: qlora, rank: 64, targets: qv, quant: nf4, full: [lm_head]}}");
  CHECK_FALSE(r.train);
  std::vector<std::string> names = r.unsupported();
  std::sort(names.begin(), names.end());
  CHECK(names == std::vector<std::string>{"train.precision=mxfp8"});
}

TEST_CASE("how the loss is made is read") {
  CHECK(train("{}").train.value().loss == Loss{});
  CHECK(train("loss: fused").train.value().loss.kind == Loss::Kind::fused);
  CHECK(train("loss: {chunks: 8}").train.value().loss == Loss{Loss::Kind::chunked, 8});
  CHECK_FALSE(train("loss: {chunks: 0}").train);
  CHECK_FALSE(train("loss: {}").train);
  CHECK_FALSE(train("loss: liger").train);
}

TEST_CASE("updates in the backward pass clip no gradients unless they are told to") {
  CHECK(train("{}").train.value().clip_gradients);
  CHECK_FALSE(train("optimizer_in_backward: true").train.value().clip_gradients);
  CHECK(train("{optimizer_in_backward: true, clip_gradients: true}").train.value().clip_gradients);
}

TEST_CASE("recipes of fp8 are read") {
  CHECK(train("fp8: {recipe: blockwise}").train.value().fp8.recipe == Fp8::Recipe::block);
  CHECK(train("fp8: {parameter_gather: true}").train.value().fp8.gathers_parameters);
  CHECK_FALSE(train("fp8: {recipe: mx}").train);
  CHECK_FALSE(train("fp8: {recipes: blockwise}").train);
}

TEST_CASE("adapters are read") {
  const Reading r = train(
      "peft: {kind: qlora, rank: 64, alpha: 16, dropout: 0.1, targets: [q_proj, down], quant: nf4-dq, full: "
      "[lm_head]}");
  REQUIRE(r.train);
  const Peft& peft = r.train->peft;
  CHECK(peft.kind == Peft::Kind::qlora);
  CHECK(peft.rank == 64);
  CHECK(peft.dropout == 0.1);
  CHECK((peft.targets.q && peft.targets.down && !peft.targets.v && !peft.targets.up));
  REQUIRE(peft.format != nullptr);
  CHECK(peft.format->name == std::string("nf4-dq"));
  CHECK((peft.full_head && !peft.full_embedding));
  CHECK(train("peft: qlora").train->peft.format->name == std::string("nf4"));
  CHECK(train("peft: {kind: qlora, quant: int4}").train->peft.format->name == std::string("gptq"));
  CHECK(train("peft: lora").train->peft.format == nullptr);
  CHECK_FALSE(train("peft: none").train->peft.active());
  CHECK(train("optimizer: paged-adamw8bit").train->optimizer == Optimizer::paged_adamw8bit);
  CHECK(train("grad_reduce: fp32").train->gradient_bytes == 4.0);
}

TEST_CASE("wrong adapters are reported with what would be right") {
  CHECK(contains(train("peft: {kind: lora, targets: [q, w]}").text(), "legal: all-linear, attention, qv, or a list"));
  CHECK(contains(train("peft: {kind: lora, quant: nf4}").text(), "write kind: qlora"));
  CHECK(contains(train("peft: {kind: qlora, quant: none}").text(), "legal quant: nf4, nf4-dq, gptq, int8"));
  CHECK(contains(train("peft: {kind: lora, full: [norms]}").text(), "legal: embedding, lm_head"));
  CHECK(contains(train("peft: {kind: lora, rank: 0}").text(), "rank=0 is out of range"));
  CHECK(contains(train("peft: {kind: lora, targets: []}").text(), "targets is empty"));
}

TEST_CASE("wrong training settings are reported where they are wrong") {
  CHECK(contains(train("seq_len: -1").text(), "test.yaml:1:10: error: train.seq_len=-1 is out of range"));
  CHECK(contains(train("precision: bf61").text(), "did you mean 'bf16'"));
  CHECK(contains(train("optimizer: adam").text(), "did you mean 'adamw'"));
  CHECK(contains(train("peft: {kind: lora, rnak: 3}").text(), "unknown key 'rnak' in train.peft"));
  CHECK(contains(train("peft: {rank: 3}").text(), "train.peft.kind is missing"));
  CHECK(contains(train("sequence: 2048").text(), "unknown key 'sequence' in train"));
  CHECK(contains(train("hello").text(), "train must be a map"));
}

}  // namespace
}  // namespace foretrain
