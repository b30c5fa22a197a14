// Recompute of parts of layers with experts and latent attention.

#include <doctest/doctest.h>

#include <map>

#include "sim/memory/ledger.h"
#include "tests/support/cases.h"

using namespace foretrain;
using namespace foretrain::testing;

namespace {

using Names = std::vector<std::string>;
using Mode = Recompute::Mode;

// Without the time that the host needs, which would hide what kernels take. One dense layer, three with experts and a
// shared one, a prediction module behind them, and latent attention.
Case mixture(const std::string& plan) {
  Case c = case_of(
      "model: {arch: moe, layers: 4, hidden: 2048, heads: 16, ffn: 8192, vocab: 32000, experts: 16, top_k: 4, "
      "expert_ffn: "
      "1408, shared_expert_ffn: 1408, first_dense_layers: 1, mtp: 1, mla: {q_lora: 768, kv_lora: 512, qk_nope: 128, "
      "qk_rope: 64, v: 128}}\n"
      "cluster: {gpu: h100-sxm5-80gb, gpus: 8, gpus_per_node: 8, intra: nvswitch}\n"
      "software: megatron-core\ntrain: {seq_len: 2048, global_batch: 16, precision: bf16}\nplan: {" +
      plan + "}");
  c.software.host_forward_ms = c.software.host_backward_ms = c.software.host_tensor_parallel_ms = 0;
  c.software.experts.host_forward_ms = c.software.experts.host_backward_ms = 0;
  return c;
}

struct Outcome {
  double kept = 0, seconds = 0;
};
Outcome outcome(Case c, Mode mode, Names names) {
  c.plan.recompute = {mode, 0, std::move(names)};
  const CaseReport report = simulate_plainly(c);
  const StageMemory memory = stage_memories(report.subject, report.step.layouts)[0];
  // What is taken is given back, and the account of time adds up.
  for (std::size_t rank = 0; rank < report.per_class.size(); ++rank) {
    CHECK(bytes_left(memory, report.step, rank).total().value == doctest::Approx(memory.always.total().value));
    CHECK(report.per_class[rank].total() == report.step_time);
  }
  return {memory.chunks[0].kept.value, report.step_time.seconds()};
}

}  // namespace

TEST_CASE("every module of a layer with experts and latent attention frees memory and takes time") {
  for (const std::string plan :
       {"tp: 1, ep: 8, zero: 1, micro_batch: 1", "tp: 2, ep: 4, etp: 1, zero: 1, micro_batch: 2"}) {
    CAPTURE(plan);
    const Case c = mixture(plan);
    const Outcome none = outcome(c, Mode::none, {}), full = outcome(c, Mode::full, {});
    Names all;
    Outcome before = none;
    for (const std::string module :
         {"core_attn", "moe_act", "shared_experts", "layernorm", "mla_up_proj", "mlp", "moe"}) {
      CAPTURE(module);
      const Outcome alone = outcome(c, Mode::modules, {module});
      CHECK(alone.kept < none.kept);
      CHECK(alone.kept > full.kept);
      CHECK(alone.seconds > none.seconds);
      // With those before: less memory with every one, and no less time.
      all.emplace_back(module);
      const Outcome together = outcome(c, Mode::modules, all);
      CHECK(together.kept < before.kept);
      CHECK(together.seconds >= before.seconds);
      before = together;
    }
    CHECK(before.kept > full.kept);
  }
}

TEST_CASE("saving an output costs its bytes and spares the work that makes it") {
  const Case c = mixture("tp: 2, ep: 4, etp: 1, zero: 1, micro_batch: 1");
  const Outcome full = outcome(c, Mode::full, {}), none = outcome(c, Mode::none, {});
  const Outcome nearly_all = outcome(c, Mode::saved, {"mlp"});
  for (const std::string name : {"qkv", "latent", "attention", "attention_out", "mlp_in", "moe"}) {
    CAPTURE(name);
    const Outcome saved = outcome(c, Mode::saved, {name}), with_mlp = outcome(c, Mode::saved, {"mlp", name});
    CHECK(saved.kept > full.kept);
    CHECK(saved.kept < none.kept);
    CHECK(with_mlp.kept > nearly_all.kept);
    CHECK(with_mlp.seconds < nearly_all.seconds);
  }
}

TEST_CASE("what parts of a layer with experts and latent attention keep") {
  Case c = mixture("tp: 2, ep: 4, etp: 1, zero: 1, micro_batch: 1");
  const LayerKind experts = c.model.layer_kind(3);
  REQUIRE(experts.experts);
  const auto kept = [&](Mode mode, Names names, LayerKind kind) {
    c.plan.recompute = {mode, 0, std::move(names)};
    return kept_activations_of_layer(c, mode == Mode::full, kind).value;
  };
  const double tokens = 2048, tp = 2, copies = 4.0 / tp;  // a token's copies on a rank, with sequence parallelism
  REQUIRE(c.plan.sequence_parallel);
  const double queries = 16 * 192.0, values = 16 * 128.0;
  const double all = kept(Mode::none, {}, experts), none = kept(Mode::full, {}, experts);
  CHECK(all - kept(Mode::modules, {"mla_up_proj"}, experts) ==
        doctest::Approx(2 * (2 * queries + values) / tp * tokens));
  // The product of gate and up, of every copy and of the shared expert.
  CHECK(all - kept(Mode::modules, {"moe_act"}, experts) == doctest::Approx(2 * copies * 1408 * tokens));
  CHECK(all - kept(Mode::modules, {"shared_experts"}, experts) == doctest::Approx(6 * 1408 / tp * tokens));
  CHECK(kept(Mode::saved, {"latent"}, experts) - none == doctest::Approx((4 * (768 + 512) + 2 * 64) / tp * tokens));
  CHECK(kept(Mode::saved, {"qkv", "latent"}, experts) == kept(Mode::saved, {"qkv"}, experts));
  CHECK(kept(Mode::saved, {"qkv"}, experts) - kept(Mode::saved, {"latent"}, experts) ==
        doctest::Approx(2 * (2 * queries + values) / tp * tokens));
  CHECK(kept(Mode::saved, {"attention"}, experts) - none == doctest::Approx((2 * values + 4 * 16) / tp * tokens));
  // The whole mixture is saved or redone alike.
  CHECK(kept(Mode::saved, {"moe"}, experts) - none == doctest::Approx(all - kept(Mode::modules, {"moe"}, experts)));
  // Of the layer without experts only what it has.
  const LayerKind dense = c.model.layer_kind(0);
  CHECK(kept(Mode::saved, {"moe"}, dense) == kept(Mode::full, {}, dense));
  CHECK(kept(Mode::modules, {"moe"}, dense) == kept(Mode::none, {}, dense));
}

TEST_CASE("an eager framework also issues again what it recomputes") {
  const Case c = case_of(
      "model: {arch: moe, layers: 4, hidden: 1024, heads: 16, vocab: 32000, experts: 8, top_k: 2, expert_ffn: 512, "
      "shared_expert_ffn: 512}\ncluster: {gpu: h100-sxm5-80gb, gpus: 1}\nsoftware: megatron-core\n"
      "train: {seq_len: 512, global_batch: 4, precision: bf16}\nplan: {micro_batch: 1}");
  const Outcome none = outcome(c, Mode::none, {});
  for (const std::string module : {"core_attn", "moe_act", "shared_experts", "layernorm", "moe"}) {
    CAPTURE(module);
    CHECK(outcome(c, Mode::modules, {module}).seconds > none.seconds);
  }
}
