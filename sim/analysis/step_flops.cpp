#include "sim/analysis/step_flops.h"

#include "sim/model/operators.h"

namespace foretrain {

namespace {

// Of the products that recompute of a layer's parts does again.
double redone_flops_per_token(const Case& c, LayerKind kind) {
  const Model& m = c.model;
  const RedoneParts redone = c.plan.recompute.redone(c.software);
  const LayerProjections p = layer_projections(m, 1);
  const ExpertProjections e = expert_projections(m, 1, 1);
  const auto work = [](bool runs, const Projection& projection) {
    return runs ? 2.0 * static_cast<double>(projection.n) * static_cast<double>(projection.k) : 0.0;
  };
  double flops = work(redone.qkv, p.qkv) + work(redone.attention_out, p.attention_out);
  if (m.mla) {
    const LatentProjections latent = latent_projections(m, 1);
    flops += work(redone.up_projections, latent.q_up) + work(redone.up_projections, latent.kv_up) +
             work(redone.qkv, latent.q_down) + work(redone.qkv, latent.kv_down);
  }
  if (!kind.experts) return flops + work(redone.mlp_in, p.mlp_in) + work(redone.mlp_out, p.mlp_out);
  const bool shared = redone.experts || redone.shared_experts;
  flops += work(shared, e.shared_in) + work(shared, e.shared_out);
  const double visits = static_cast<double>(m.top_k);
  return flops + work(redone.experts, e.router) +
         visits * (work(redone.experts, e.expert_in) + work(redone.experts, e.expert_out));
}

}  // namespace

StepFlops step_flops(const Case& c, const std::vector<StageLayout>& layouts) {
  const double tokens = static_cast<double>(c.train.global_batch * c.train.seq_len);
  const ForwardFlops forward = forward_flops(c.model, tokens, c.train.seq_len);
  StepFlops flops{3.0 * forward.total().value, 0.0};
  if (const Peft& peft = c.train.peft; peft.active()) {
    // Frozen weights have no gradient of their own; adapters are matrices like others.
    flops.model -= forward.layers.value + (peft.full_head ? 0.0 : forward.head.value);
    for (std::int64_t layer = 0; layer < c.model.layers + c.model.mtp; ++layer) {
      const LayerKind kind = layer < c.model.layers ? c.model.layer_kind(layer) : c.model.predictor_kind();
      const LayerAdapters adapters = layer_adapters(c.model, peft, kind, 1, 1, c.software.lora_merged_projections);
      const double met = adapters.parameters(peft.rank) +
                         static_cast<double>(c.model.top_k) * adapters.parameters_of_expert(peft.rank);
      flops.model += 6.0 * met * tokens;
    }
  }
  if (c.plan.recompute.of_attention_core(c.software) && c.train.attention == AttentionKernel::standard) {
    flops.recomputed = forward.attention_core.value;
  } else if (c.plan.recompute.of_parts()) {
    for (std::int64_t layer = 0; layer < c.model.layers; ++layer) {
      flops.recomputed += redone_flops_per_token(c, c.model.layer_kind(layer)) * tokens;
    }
    if (c.plan.recompute.redone(c.software).core_attention) flops.recomputed += forward.attention_core.value;
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
  const auto rate_of = [&](const Gpu& gpu) {
    const auto peak = gpu.dense(c.train.precision);
    return peak ? *peak : gpu.dense(Precision::fp32).value_or(FlopsPerSecond{});
  };
  const FlopsPerSecond usual = rate_of(c.cluster.gpu);
  FlopsPerSecond more;
  for (const ClusterDescription::OddGpu& odd : c.cluster.odd_gpus) {
    if (odd.kind > 0 && odd.number < c.plan.gpus()) more += rate_of(c.cluster.gpu_of_kind(odd.kind)) - usual;
  }
  return usual + more / c.plan.gpus();
}

}  // namespace foretrain
