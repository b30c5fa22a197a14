#include <algorithm>

#include "sim/plan/rules.h"

namespace foretrain {

void check_fp8_recipe(const Question& q, const Plan& plan) {
  const Precision wanted = q.train.precision;
  if (q.train.fp8 != Fp8{} && wanted != Precision::fp8) {
    q.diagnostics.error(q.train.fp8_position, message("train.fp8 is a recipe of precision fp8, and precision is {}; "
                                                      "legal: precision: fp8, or no train.fp8",
                                                      to_string(wanted)));
  } else if (q.train.fp8.gathers_parameters && plan.zero == 0) {
    q.diagnostics.warning(q.train.fp8_position,
                          message("parameter_gather has no effect with zero=0: no weights are gathered"));
  }
}

// What a GPU can compute in.
void check_precision(const Question& q, const Gpu& gpu) {
  const Precision wanted = q.train.precision;
  if (gpu.dense(wanted)) return;
  std::vector<std::string> legal;
  for (int i = 0; i < kPrecisions; ++i) {
    const auto precision = static_cast<Precision>(i);
    if (gpu.dense(precision)) legal.emplace_back(to_string(precision));
  }
  if (is_quantised(wanted) || !gpu.dense(Precision::fp32)) {
    q.diagnostics.error(q.train.precision_position, message("precision {} does not run on {}; legal: {}",
                                                            to_string(wanted), gpu.name, fmt::join(legal, ", ")));
  } else {
    q.diagnostics.warning(q.train.precision_position,
                          message("{} has no {} tensor cores: products run at the fp32 rate; {} are fast there",
                                  gpu.name, to_string(wanted), fmt::join(legal, ", ")));
  }
}

void check_attention(const Question& q, const Gpu& gpu) {
  if (q.train.attention == AttentionKernel::standard) return;
  std::vector<std::string> legal;
  for (int i = 1; i < kAttentionKernels; ++i) {
    if (gpu.achieved.flash[static_cast<std::size_t>(i)].forward > 0) {
      legal.emplace_back(to_string(static_cast<AttentionKernel>(i)));
    }
  }
  if (legal.empty()) {
    q.diagnostics.error(q.train.attention_position,
                        message("no flash attention kernel is known for {}; legal attention: standard", gpu.name));
  } else if (!(gpu.achieved.flash[static_cast<std::size_t>(q.train.attention)].forward > 0)) {
    q.diagnostics.warning(q.train.attention_position,
                          message("attention {} is not known on {}: the nearest of {} stands in",
                                  to_string(q.train.attention), gpu.name, fmt::join(legal, ", ")));
  }
}

void resolve_recompute(const Question& q, Plan& plan) {
  plan.recompute = q.request.recompute.value_or(Recompute{});
  const char* rule = Recompute::to_string(plan.recompute.mode);
  const auto needs = [&](std::initializer_list<std::string_view> names, bool there, const Message& what) {
    const std::vector<std::string>& written = plan.recompute.names;
    const bool named = std::find_first_of(written.begin(), written.end(), names.begin(), names.end()) != written.end();
    if (named && !there)
      q.error("recompute", message("plan.recompute.{} names what the model does not have: {}", rule, what));
  };
  needs({"moe", "moe_act"}, q.model.experts > 0, message("experts (moe, moe_act)"));
  needs({"shared_experts"}, q.model.shared_expert_ffn > 0, message("shared experts (shared_experts)"));
  needs({"mla_up_proj", "latent"}, q.model.mla.has_value(), message("latent attention (mla_up_proj, latent)"));
  const RedoneParts redone = plan.recompute.redone(Software{});
  if (redone.qkv && q.model.mla && plan.recompute.mode == Recompute::Mode::modules) {
    q.error("recompute",
            message("plan.recompute.modules: latent attention has no projection of Q, K and V; legal: mla_up_proj"));
  }
  if (plan.recompute.mode != Recompute::Mode::blocks) return;
  const bool spread_evenly = !q.request.layers && !q.request.layers_auto && q.request.ends_as_layers.value_or(0) == 0;
  const std::int64_t stage_layers = spread_evenly ? (q.model.layers + q.pp - 1) / q.pp : q.model.layers;
  if (plan.recompute.blocks > stage_layers) {
    q.error("recompute", message("recompute blocks={} is more than the {} layers of a pipeline stage; legal: 0 to {}",
                                 plan.recompute.blocks, stage_layers, stage_layers));
  }
}

// Whether adapters and quantised weights go with the rest.
void check_peft(const Question& q, const Software& software, const Plan& plan) {
  const Peft& peft = q.train.peft;
  if (!peft.active()) return;
  const SourcePosition& position = q.train.peft_position;
  const auto has_adapters = [&](LayerKind kind) {
    const LayerAdapters adapters = layer_adapters(q.model, peft, kind, 1, 1, false);
    return !adapters.outside_experts().empty() || !adapters.of_expert().empty();
  };
  bool any = false;
  for (std::int64_t layer = 0; layer < q.model.layers && !any; ++layer) any = has_adapters(q.model.layer_kind(layer));
  if (!any) {
    q.diagnostics.error(position,
                        message("train.peft.targets names no linear layer of this model; legal: all-linear, attention, "
                                "qv, or a list of q, k, v, o, up, down"));
  }
  if (peft.rank > q.model.hidden) {
    q.diagnostics.error(position, message("train.peft.rank {} is more than hidden={}: an adapter would be larger than "
                                          "what it adapts; legal: 1 to {}",
                                          peft.rank, q.model.hidden, q.model.hidden));
  }
  if (splits_backward(plan.schedule)) {
    q.diagnostics.unsupported(position, message("train.peft with a schedule that defers weight gradients (legal: 1f1b, "
                                                "interleaved, gpipe)"));
  }
  if (peft.format == nullptr) return;
  if (is_quantised(q.train.precision)) {
    q.diagnostics.error(q.train.precision_position,
                        message("precision {} multiplies {} weights, and kind: qlora stores them quantised; "
                                "legal: bf16 or fp16, or kind: lora",
                                to_string(q.train.precision), to_string(q.train.precision)));
  }
  if (plan.zero == 3 && !software.zero3_shards_quantised) {
    q.error("zero", message("zero=3 of {} does not shard quantised weights; legal with qlora: zero 0, 1 or 2, kind: "
                            "lora, or a framework whose FSDP shards them (hf-trainer, torch-fsdp)",
                            software.name));
  }
}

// An update in the backward pass needs the whole gradient of a block there, and the norm of none.
void check_optimizer(const Question& q, const Plan& plan) {
  const Train& train = q.train;
  if (!train.optimizer_in_backward) return;
  const auto error = [&](Message message) {
    q.diagnostics.error(train.optimizer_in_backward_position, std::move(message));
  };
  if (train.clip_gradients) {
    error(
        message("train.optimizer_in_backward cannot clip gradients, whose norm is known only at the end of the "
                "backward pass; legal: clip_gradients: "
                "false"));
  }
  const std::int64_t micro_batches = train.global_batch / (q.dp * q.micro_batch);
  if (train.global_batch > 0 && !q.request.micro_batch_auto && !q.request.splits_unevenly() && micro_batches > 1) {
    error(
        message("train.optimizer_in_backward updates weights after every micro-batch, and global_batch={} makes {} of "
                "them; legal: "
                "global_batch: {}, or micro_batch: {}",
                train.global_batch, micro_batches, q.dp * q.micro_batch, train.global_batch / q.dp));
  }
  if (q.pp > 1 || splits_backward(plan.schedule))
    error(message("train.optimizer_in_backward needs weights that no other micro-batch uses; legal: pp=1"));
  if (q.request.offload)
    error(message("train.optimizer_in_backward keeps the optimizer on the GPU; legal: no offload"));
}

}  // namespace foretrain
