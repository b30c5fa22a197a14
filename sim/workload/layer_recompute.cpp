#include <algorithm>
#include <cmath>

#include "sim/workload/layer_parts.h"

namespace foretrain {
namespace {

// Of the elementwise passes of hidden width, the two norms read and write four; residuals and dropout are the rest (of
// 11 in a framework that fuses what it can, see configs/software/megatron-lm.yaml).
constexpr double kNormShare = 4.0 / 11.0;

// The elementwise kernels of a layer's forward pass that are redone.
Software::ElementwisePasses redone_passes(const Case& c, const RedoneParts& redone) {
  const Software::ElementwisePasses& all = c.software.forward;
  const bool everything = c.plan.recompute.mode == Recompute::Mode::saved;
  const auto sum = [](const Software::ElementwisePasses& p) { return p.hidden + p.attention + p.ffn; };
  Software::ElementwisePasses passes{all.hidden * (everything     ? 1
                                                   : redone.norms ? kNormShare
                                                                  : 0),
                                     redone.qkv ? all.attention : 0, redone.activation ? all.ffn : 0, 0};
  if (sum(all) > 0) passes.kernels = static_cast<int>(std::lround(all.kernels * sum(passes) / sum(all)));
  return passes;
}

// Of the kernels that a layer's forward pass issues, those that run again: elementwise ones, and of attention and the
// four products one each. What the host needs goes by their number, not by how long they run.
double redone_kernel_share(const Case& c, LayerKind kind, const RedoneParts& redone) {
  const bool mlp_in = kind.experts ? redone.experts : redone.mlp_in,
             mlp_out = kind.experts ? redone.experts : redone.mlp_out;
  const int products = (redone.qkv || redone.up_projections) + redone.attention_out + mlp_in + mlp_out;
  // Shared experts are two products and the activation between them.
  const int of_experts = kind.experts ? redone.expert_activation + 3 * redone.shared_experts : 0;
  const double again = redone_passes(c, redone).kernels + products + redone.core_attention + of_experts;
  return std::min(1.0, again / (5.0 + c.software.forward.kernels));
}

}  // namespace

// Regions gather their input again, and sum their output if they run to their end.
BlockPass redone_parts_of_layer(const Case& c, const RankShape& s, LayerKind kind) {
  const RedoneParts redone = c.plan.recompute.redone(c.software);
  const LayerProjections p = layer_projections(c.model, c.plan.tp);
  const Elementwise between = elementwise(c, s, redone_passes(c, redone));
  const LayerAdapters low_rank = adapters_of_layer(c, kind);
  const auto linear = [&](bool runs, const Projection& projection, const std::vector<Projection>& adapters) {
    return runs ? linear_pass(c, s, projection, s.tokens, Pass::forward, adapters) : KernelList{};
  };
  const double exposed = c.plan.overlap.tp ? 1.0 - c.software.tp_overlap_hidden : 1.0;
  BlockPass block;
  const auto hidden = static_cast<double>(c.model.hidden);
  const auto add = [&](std::vector<LayerStep> steps, double gathered_width, bool sums) {
    const auto collective = [&](Collective op, double width) {
      return LayerStep::GroupCollective{Purpose::tensor, op, {s.tokens * width * s.element}, exposed, {0}};
    };
    BlockPass region;
    if (gathered_width > 0 && c.plan.tp > 1 && c.plan.sequence_parallel) {
      region.steps.push_back({{}, collective(Collective::all_gather, gathered_width)});
    }
    if (sums && c.plan.tp > 1) {
      steps.back().collective =
          collective(c.plan.sequence_parallel ? Collective::reduce_scatter : Collective::all_reduce, hidden);
    }
    region.steps.insert(region.steps.end(), steps.begin(), steps.end());
    block = block + region;
  };
  KernelList core;
  if (redone.core_attention) core = attention_core(c, s, kind, Pass::forward);
  const ContextExchange exchange =
      redone.core_attention ? context_exchange(c, s, Pass::forward, core.total()) : ContextExchange{};
  const bool latent = c.model.mla.has_value();
  const AttentionInputs projections = attention_inputs(c, s, Pass::forward, low_rank);
  if (latent && redone.qkv) block = block + BlockPass{{{projections.narrow, {}}}, {0}, {0}};
  KernelList inputs;
  double gathered = 0;
  if (latent ? redone.up_projections : redone.qkv) {
    inputs = projections.wide;
    gathered = projections.gathered_width;
  }
  add({{between.attention + inputs, exchange.before},
       {core, exchange.after},
       {linear(redone.attention_out, p.attention_out, low_rank.attention_out), {}}},
      gathered, redone.attention_out);
  if (!kind.experts) {
    add({{between.mlp + linear(redone.mlp_in, p.mlp_in, low_rank.mlp_in) +
              linear(redone.mlp_out, p.mlp_out, low_rank.mlp_out),
          {}}},
        redone.mlp_in ? hidden : 0, redone.mlp_out);
  } else if (redone.experts) {
    add_experts(block, c, s, kind, Pass::forward, between.norms, block.compute().total());
  } else {
    KernelList mixture = between.norms;
    if (redone.expert_activation) mixture += expert_activation(c, s, Pass::forward);
    if (redone.shared_experts) mixture += shared_experts(c, s, kind, Pass::forward);
    add({{mixture, {}}}, redone.shared_experts ? hidden : 0, redone.shared_experts);
  }
  block.host = layer_host_time(c, kind, Pass::forward) * redone_kernel_share(c, kind, redone);
  return block;
}

}  // namespace foretrain
