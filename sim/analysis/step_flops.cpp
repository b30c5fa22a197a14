#include "sim/analysis/step_flops.h"

#include "sim/model/operators.h"

namespace foretrain {

StepFlops step_flops(const Case& c, const std::vector<StageLayout>& layouts) {
  const double tokens = static_cast<double>(c.train.global_batch * c.train.seq_len);
  const ForwardFlops forward = forward_flops(c.model, tokens, c.train.seq_len);
  StepFlops flops{3.0 * forward.total().value, 0.0};
  if (const Peft& peft = c.train.peft; peft.active()) {
    // Frozen weights have no gradient of their own; adapters are matrices like others.
    flops.model -= forward.layers.value + (peft.full_head ? 0.0 : forward.head.value);
    const double adapters = layer_adapters(c.model, peft, 1, c.software.lora_merged_projections).parameters(peft.rank);
    flops.model += 6.0 * adapters * static_cast<double>(c.model.layers) * tokens;
  }
  if (c.plan.recompute.of_attention_core(c.software) && c.train.attention == AttentionKernel::standard) {
    flops.recomputed = forward.attention_core.value;
  } else if (c.plan.recompute.of_parts()) {
    const RedoneParts redone = c.plan.recompute.redone(c.software);
    const LayerProjections p = layer_projections(c.model, 1);
    const auto work = [](bool runs, const Projection& projection) {
      return runs ? 2.0 * static_cast<double>(projection.n) * static_cast<double>(projection.k) : 0.0;
    };
    const double per_token = work(redone.qkv, p.qkv) + work(redone.attention_out, p.attention_out) +
                             work(redone.mlp_in, p.mlp_in) + work(redone.mlp_out, p.mlp_out);
    flops.recomputed = per_token * tokens * static_cast<double>(c.model.layers) +
                       (redone.core_attention ? forward.attention_core.value : 0.0);
  } else {
    double layers = 0, again = 0;
    for (const StageLayout& stage : layouts) {
      for (const Chunk& chunk : stage.chunks) {
        for (const Block& block : chunk.blocks) {
          layers += block.kind == Block::Kind::layer;
          again += block.recomputed;
        }
      }
    }
    if (layers > 0) flops.recomputed = (forward.layers + forward.attention_core).value * again / layers;
  }
  return flops;
}

FlopsPerSecond peak_rate(const Case& c) {
  const auto peak = c.cluster.gpu.dense(c.train.precision);
  return peak ? *peak : c.cluster.gpu.dense(Precision::fp32).value_or(FlopsPerSecond{});
}

}  // namespace foretrain
