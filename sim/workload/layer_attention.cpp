#include <algorithm>

#include "sim/workload/layer_parts.h"

// The attention half of a layer: projections, the core, and what ranks exchange that split the sequences.

namespace foretrain {

// The attention core runs one of the flash kernels or the unfused chain. Megatron's fused scale-mask-softmax kernel
// needs the rows of its batch of heads to come in fours (study of whole steps: tp 8 with 16 heads).
bool softmax_is_fused(const Case& c) {
  return c.software.fused_softmax &&
         (c.plan.micro_batch * c.model.heads / c.plan.tp) % c.software.fused_softmax_multiple == 0;
}

KernelList attention_core(const Case& c, const RankShape& s, LayerKind kind, Pass pass) {
  // A rank has some heads of the whole sequence ...
  const bool deals_heads = c.plan.context == ContextParallel::ulysses;
  const AttentionShape shape{.batch = c.plan.micro_batch,
                             .heads = c.model.heads / c.plan.tp / (deals_heads ? c.plan.cp : 1),
                             .head_dim = c.model.head_dim,
                             .seq = c.train.seq_len,
                             .causal = true,
                             .value_dim = c.model.value_dim(),
                             .window = kind.windowed ? c.model.window : 0};
  KernelTime time = c.train.attention == AttentionKernel::standard
                        ? standard_attention_time(c.cluster.gpu, s.rest, shape, pass, softmax_is_fused(c))
                        : flash_attention_time(c.cluster.gpu, s.rest, c.train.attention, shape, pass);
  if (c.plan.cp > 1 && !deals_heads) {
    // ... or its share of the square of queries and keys, which a ring makes in parts.
    const double share = c.software.cp_imbalance / c.plan.cp;
    time.matmul *= share;
    time.memory *= share;
    if (c.plan.context == ContextParallel::ring) time.latency *= c.plan.cp;
  }
  return {"attention", pass == Pass::forward ? "forward" : "backward", time};
}

namespace {

// Keys and values, or scattered their gradients, among the ranks that split the sequences. A ring passes parts on while
// the attention works on what it has.
LayerStep::GroupCollective key_value_exchange(const Case& c, const RankShape& s, Collective op, Seconds core) {
  const auto heads = static_cast<double>(std::max<std::int64_t>(1, c.model.kv_heads / c.plan.tp));
  const double width = heads * static_cast<double>(c.model.head_dim + c.model.value_dim());
  const Bytes bytes{width * s.tokens * c.plan.cp * s.element};
  if (c.plan.context == ContextParallel::all_gather) return {Purpose::context, op, bytes, 1.0, {0}};
  const double beside = static_cast<double>(c.plan.cp - 1) / c.plan.cp;
  return {Purpose::context, op, bytes, c.software.cp_exposed, core * beside};
}

// Of a rank's tokens, all its heads: every rank of the group keeps 1/cp of these and gets as much from each other one.
// Fewer key-value heads than ranks are copied first.
LayerStep::GroupCollective deal_heads(const RankShape& s, double elements) {
  return {Purpose::context, Collective::all_to_all, {elements * s.tokens * s.element}, 1.0, {0}};
}

}  // namespace

ContextExchange context_exchange(const Case& c, const RankShape& s, Pass pass, Seconds core) {
  if (c.plan.cp == 1) return {};
  const bool forward = pass == Pass::forward;
  if (c.plan.context != ContextParallel::ulysses) {
    // In the backward pass keys and values come round again, and their gradients go back to where they belong.
    if (forward) return {key_value_exchange(c, s, Collective::all_gather, core), {}};
    return {key_value_exchange(c, s, Collective::all_gather, core * 0.5),
            key_value_exchange(c, s, Collective::reduce_scatter, core * 0.5)};
  }
  const std::int64_t kv = std::max<std::int64_t>(std::max<std::int64_t>(1, c.model.kv_heads / c.plan.tp), c.plan.cp);
  const auto q_heads = static_cast<double>(c.model.heads / c.plan.tp);
  const auto key = static_cast<double>(c.model.head_dim), value = static_cast<double>(c.model.value_dim());
  const auto inputs = deal_heads(s, q_heads * key + static_cast<double>(kv) * (key + value));
  const auto output = deal_heads(s, q_heads * value);
  return forward ? ContextExchange{inputs, output} : ContextExchange{output, inputs};
}

AttentionInputs attention_inputs(const Case& c, const RankShape& s, Pass pass, const LayerAdapters& adapters) {
  const Model& m = c.model;
  const auto hidden = static_cast<double>(m.hidden);
  if (!m.mla) return {{}, linear_pass(c, s, layer_projections(m, c.plan.tp).qkv, s.tokens, pass, adapters.qkv), hidden};
  const LatentProjections p = latent_projections(m, c.plan.tp);
  const double part = s.tokens / s.hidden_shards;
  const auto compressed = static_cast<double>(m.mla->kv_lora + m.mla->qk_rope);
  const double queries = m.mla->q_lora > 0 ? static_cast<double>(m.mla->q_lora) : hidden;
  KernelList narrow = linear_pass(c, s, p.kv_down, part, pass, adapters.narrow);
  if (m.mla->q_lora > 0) narrow += linear_pass(c, s, p.q_down, part, pass);
  if (pass == Pass::weight_gradient) {
    return {narrow, linear_pass(c, s, p.q_up, s.tokens, pass) + linear_pass(c, s, p.kv_up, s.tokens, pass), 0};
  }
  // Norms of the compressed vectors; the keys' two parts are written into one tensor, and their gradient cut again.
  const double norms = (pass == Pass::forward ? 2.0 : 4.0) * part * (compressed + queries);
  const double keys = (pass == Pass::forward ? 4.0 : 5.0) * s.tokens * static_cast<double>(m.query_width()) / s.tp;
  narrow += {"latent attention", "norms", streaming_time(c.cluster.gpu, {norms * s.element}, 2)};
  KernelList wide =
      linear_pass(c, s, p.q_up, s.tokens, pass, adapters.qkv) + linear_pass(c, s, p.kv_up, s.tokens, pass);
  wide += {"latent attention", "copies of keys", streaming_time(c.cluster.gpu, {keys * s.element}, 4)};
  return {narrow, wide, queries + compressed};
}

}  // namespace foretrain
