#include <algorithm>

#include "sim/workload/adapter_cost.h"
#include "sim/workload/layer_parts.h"

// The model's ends: the token table, and the head with its loss.

namespace foretrain {

BlockPass embedding_pass(const Case& c, const RankShape& s, Pass pass) {
  // Forward reads and writes one row a token; backward reads the gradient and adds it into the table's gradient.
  const double passes = pass == Pass::forward ? 2.0 : 3.0;
  const double width = static_cast<double>(c.model.hidden) * s.element;
  BlockPass block;
  // A frozen table has no gradient: the backward pass ends before it.
  if (pass == Pass::backward && c.train.peft.active() && !c.train.peft.full_embedding) {
    block.steps.push_back({{"embedding", "", streaming_time(c.cluster.gpu, {0}, 1)}, {}});
    return block;
  }
  LayerStep step{{"embedding", "", streaming_time(c.cluster.gpu, {passes * s.tokens * width}, 2)}, {}};
  if (c.plan.tp > 1 && (pass == Pass::forward || c.plan.sequence_parallel)) {
    const Collective op = !c.plan.sequence_parallel ? Collective::all_reduce
                          : pass == Pass::forward   ? Collective::reduce_scatter
                                                    : Collective::all_gather;
    step.collective = LayerStep::GroupCollective{Purpose::tensor, op, hidden_tensor(c, s), 1.0, {0}};
  }
  block.steps.push_back(step);
  return block;
}

namespace {

Projection head_of(const Case& c) {
  return {stored_vocabulary(c.model, c.plan.tp, c.software.pads_vocabulary) / c.plan.tp, c.model.hidden};
}

bool head_is_frozen(const Case& c) { return c.train.peft.active() && !c.train.peft.full_head; }

// Products with the head's weight over `tokens` tokens.
enum class Product { scores, input_gradient, weight_gradient };
KernelList head_product(const Case& c, const RankShape& s, double tokens, Product product) {
  const Projection head = head_of(c);
  KernelTime time = product == Product::scores           ? forward_product(c, s.rest, tokens, head)
                    : product == Product::input_gradient ? input_gradient(c, s.rest, tokens, head)
                                                         : weight_gradient(c, s.rest, tokens, head);
  if (head.n % 2 != 0) time.matmul *= c.software.odd_vocabulary_slowdown;
  const char* what = product == Product::scores           ? "gemm"
                     : product == Product::input_gradient ? "input gradient"
                                                          : "weight gradient";
  return {"head", what, time};
}

// Those of a backward pass, as far as it makes them and the head has them.
KernelList head_gradients(const Case& c, const RankShape& s, double tokens, Pass pass) {
  KernelList list;
  if (pass != Pass::weight_gradient) list += head_product(c, s, tokens, Product::input_gradient);
  if (pass != Pass::input_gradient && !head_is_frozen(c)) list += head_product(c, s, tokens, Product::weight_gradient);
  return list;
}

KernelList dequantised_head(const Case& c, Pass pass) {
  if (!c.software.quantises_head) return {};
  return {"head", "dequantise", dequantise_time(c, head_of(c), pass)};
}

KernelList cross_entropy(const Case& c, double bytes, int kernels) {
  return {"cross entropy", "", streaming_time(c.cluster.gpu, {bytes}, kernels)};
}

// The hidden tensor is gathered before the head where its sequence is split, and the gradient of it summed behind.
LayerStep gathers_input(const Case& c, const RankShape& s) {
  return {{}, LayerStep::GroupCollective{Purpose::tensor, Collective::all_gather, hidden_tensor(c, s), 1.0, {0}}};
}
LayerStep::GroupCollective sums_gradient(const Case& c, const RankShape& s) {
  const Collective op = c.plan.sequence_parallel ? Collective::reduce_scatter : Collective::all_reduce;
  return {Purpose::tensor, op, hidden_tensor(c, s), 1.0, {0}};
}

// Vocabulary-parallel cross entropy agrees on the maximum, the target's logit and the sum: 4 bytes a token each.
void add_statistics(BlockPass& block, const KernelList& scores, double tokens) {
  const LayerStep::GroupCollective statistic{Purpose::tensor, Collective::all_reduce, {4.0 * tokens}, 1.0, {0}};
  block.steps.push_back({scores, statistic});
  block.steps.push_back({{}, statistic});
  block.steps.push_back({{}, statistic});
}

// The kernels of a pass over all tokens at a time, with what the tensor-parallel ranks exchange for it.
BlockPass over_all_tokens(const Case& c, const RankShape& s, const KernelList& list, bool forward) {
  BlockPass block;
  if (c.plan.tp == 1) {
    block.steps.push_back({list, {}});
  } else if (forward) {
    if (c.plan.sequence_parallel) block.steps.push_back(gathers_input(c, s));
    add_statistics(block, list, s.tokens);
  } else {
    block.steps.push_back({list, sums_gradient(c, s)});
  }
  return block;
}

// All logits at a time. A third of the loss traffic is forward, two thirds backward (cross entropy reads the logits
// once, then rewrites them as their gradient).
BlockPass whole_loss(const Case& c, const RankShape& s, Pass pass) {
  const bool forward = pass == Pass::forward;
  KernelList list = forward ? head_product(c, s, s.tokens, Product::scores) : head_gradients(c, s, s.tokens, pass);
  list += dequantised_head(c, pass);
  const double logits = s.tokens * static_cast<double>(head_of(c).n), share = forward ? 1.0 / 3.0 : 2.0 / 3.0;
  list += cross_entropy(c, share * c.software.loss_bytes_per_logit * logits, forward ? 6 : 4);
  return over_all_tokens(c, s, list, forward);
}

// Part by part: scores, loss and every gradient in the forward pass. A part's loss reads its logits twice and writes
// the gradient over them (Liger's kernel); the backward pass scales what is there by the gradient of the loss.
BlockPass chunked_loss(const Case& c, const RankShape& s, Pass pass) {
  BlockPass block;
  const Projection head = head_of(c);
  if (pass != Pass::forward) {
    const double gradients = s.tokens * static_cast<double>(head.k) +
                             (head_is_frozen(c) ? 0.0 : static_cast<double>(head.n) * static_cast<double>(head.k));
    block.steps.push_back({cross_entropy(c, 2.0 * s.element * gradients, 2), {}});
    return block;
  }
  const std::int64_t chunks = c.train.loss.chunks;
  const double part = s.tokens / static_cast<double>(chunks);
  const KernelList scores = head_product(c, s, part, Product::scores) + dequantised_head(c, pass);
  const KernelList rest = cross_entropy(c, 3.0 * s.element * part * static_cast<double>(head.n), 2) +
                          head_gradients(c, s, part, Pass::backward);
  if (c.plan.tp > 1 && c.plan.sequence_parallel) block.steps.push_back(gathers_input(c, s));
  BlockPass one;
  if (c.plan.tp > 1) add_statistics(one, scores, part);
  one.steps.push_back({c.plan.tp > 1 ? rest : scores + rest, {}});
  if (c.plan.tp == 1) {
    block.steps.push_back({{"head", "loss in parts", one.compute() * static_cast<double>(chunks)}, {}});
  } else {
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) block = block + one;
    block.steps.back().collective = sums_gradient(c, s);
  }
  return block;
}

// Logits stay in registers; the backward pass makes them again beside the gradients.
BlockPass fused_loss(const Case& c, const RankShape& s, Pass pass) {
  const bool forward = pass == Pass::forward;
  KernelList list = head_product(c, s, s.tokens, Product::scores) + dequantised_head(c, pass);
  if (!forward) list += head_gradients(c, s, s.tokens, Pass::backward);
  return over_all_tokens(c, s, list, forward);
}

}  // namespace

BlockPass head_pass(const Case& c, const RankShape& s, Pass pass) {
  BlockPass block;
  const Loss::Kind kind = c.train.loss.kind;
  if (pass == Pass::weight_gradient) {
    // Where the loss makes gradients of its own accord, they are made with it.
    if (kind == Loss::Kind::as_framework)
      block.steps.push_back({head_product(c, s, s.tokens, Product::weight_gradient), {}});
    return block;
  }
  block = kind == Loss::Kind::chunked ? chunked_loss(c, s, pass)
          : kind == Loss::Kind::fused ? fused_loss(c, s, pass)
                                      : whole_loss(c, s, pass);
  block.host = {c.software.micro_batch_overhead_ms * 1e-3 / 2.0};
  return block;
}

}  // namespace foretrain
