#include "sim/workload/layer_cost.h"

#include <algorithm>
#include <cmath>

#include "sim/model/operators.h"
#include "sim/workload/adapter_cost.h"

namespace foretrain {
namespace {

// The sizes that every block of one rank shares.
struct RankShape {
  double tokens = 0;         // of a micro-batch, on this rank
  double hidden_shards = 1;  // ranks that split the sequence outside the tensor-parallel regions
  double tp = 1;
  double element = 2;                  // bytes
  Precision matmul = Precision::bf16;  // of the layers' linear products
  Precision rest = Precision::bf16;    // of attention, head: fp8 recipes leave these in bf16
};

// Of an element of the gradient buffer that weight gradients are added into.
double gradient_bytes(const Case& c) {
  const double stored = c.software.state_bytes(c.plan.zero, c.train.precision == Precision::bf16).gradients;
  return stored >= 4 ? 4 : 2;
}

RankShape shape_of(const Case& c) {
  RankShape s;
  s.tokens = static_cast<double>(c.plan.micro_batch * c.train.seq_len / c.plan.cp);
  s.tp = c.plan.tp;
  s.hidden_shards = c.plan.sequence_parallel ? c.plan.tp : 1;
  s.element = element_bytes(c.train.precision);
  s.matmul = c.train.precision;
  s.rest = c.train.precision == Precision::fp8 ? Precision::bf16 : c.train.precision;
  return s;
}

std::int64_t rows(const RankShape& s) { return static_cast<std::int64_t>(s.tokens); }

KernelTime forward_product(const Gpu& gpu, Precision precision, std::int64_t tokens, const Projection& p) {
  return gemm_time(gpu, precision, {.m = tokens, .n = p.n, .k = p.k});
}

// Weight gradients accumulate into the gradient buffer.
KernelTime weight_gradient(const Gpu& gpu, Precision precision, std::int64_t tokens, const Projection& p,
                           double gradient_bytes) {
  return gemm_time(gpu, precision,
                   {.m = p.n, .n = p.k, .k = tokens, .accumulate = true, .output_bytes = gradient_bytes});
}

// The gradient of the input, all there is to do for frozen weights.
KernelTime input_gradient(const Gpu& gpu, Precision precision, std::int64_t tokens, const Projection& p) {
  return gemm_time(gpu, precision, {.m = tokens, .n = p.k, .k = p.n});
}

// The gradient of the input and, unless a pass of its own makes it, that of the weights.
KernelTime backward_product(const Gpu& gpu, Precision precision, std::int64_t tokens, const Projection& p,
                            double gradient_bytes, Pass pass) {
  const KernelTime input = input_gradient(gpu, precision, tokens, p);
  return pass == Pass::input_gradient ? input : input + weight_gradient(gpu, precision, tokens, p, gradient_bytes);
}

// The attention core runs one of the flash kernels or the unfused chain. Megatron's fused scale-mask-softmax kernel
// needs the rows of its batch of heads to come in fours (study of whole steps: tp 8 with 16 heads).
bool softmax_is_fused(const Case& c) {
  return c.software.fused_softmax &&
         (c.plan.micro_batch * c.model.heads / c.plan.tp) % c.software.fused_softmax_multiple == 0;
}

KernelTime attention_core(const Case& c, const RankShape& s, Pass pass) {
  const AttentionShape shape{.batch = c.plan.micro_batch,
                             .heads = c.model.heads / c.plan.tp,
                             .head_dim = c.model.head_dim,
                             .seq = c.train.seq_len,
                             .causal = true};
  KernelTime time = c.train.attention == AttentionKernel::standard
                        ? standard_attention_time(c.cluster.gpu, s.rest, shape, pass, softmax_is_fused(c))
                        : flash_attention_time(c.cluster.gpu, s.rest, c.train.attention, shape, pass);
  if (c.plan.cp > 1) {
    // The ranks of a context-parallel group share the square of queries and keys; in a ring each takes it in parts.
    const double share = c.software.cp_imbalance / c.plan.cp;
    time.matmul *= share;
    time.memory *= share;
    if (c.plan.context == ContextParallel::ring) time.latency *= c.plan.cp;
  }
  return time;
}

// The exchange of keys and values (or, scattered, of their gradients) among the ranks that split the sequences. A ring
// passes parts on while the attention works on what it has.
std::optional<LayerStep::GroupCollective> key_value_exchange(const Case& c, const RankShape& s, Collective op,
                                                             const KernelTime& core) {
  if (c.plan.cp == 1) return std::nullopt;
  const double width = static_cast<double>(std::max<std::int64_t>(1, c.model.kv_heads / c.plan.tp) * c.model.head_dim);
  const Bytes bytes{2.0 * width * s.tokens * c.plan.cp * s.element};
  if (c.plan.context == ContextParallel::all_gather)
    return LayerStep::GroupCollective{Purpose::context, op, bytes, 1.0, {0}};
  const double beside = static_cast<double>(c.plan.cp - 1) / c.plan.cp;
  return LayerStep::GroupCollective{Purpose::context, op, bytes, c.software.cp_exposed, core.total() * beside};
}

// Elementwise kernels of the attention half and of the MLP half of a layer.
struct Elementwise {
  KernelTime attention, mlp;
};

Elementwise elementwise(const Case& c, const RankShape& s, const Software::ElementwisePasses& passes) {
  const double per_token = s.element * s.tokens;
  const Bytes hidden{per_token * passes.hidden * static_cast<double>(c.model.hidden) / s.hidden_shards};
  const Bytes attention{per_token * passes.attention * static_cast<double>(c.model.query_width()) / s.tp};
  const Bytes ffn{per_token * passes.ffn * static_cast<double>(c.model.ffn) / s.tp};
  return {streaming_time(c.cluster.gpu, hidden / 2.0 + attention, passes.kernels / 2.0),
          streaming_time(c.cluster.gpu, hidden / 2.0 + ffn, passes.kernels / 2.0)};
}

Bytes hidden_tensor(const Case& c, const RankShape& s) {
  return {s.tokens * static_cast<double>(c.model.hidden) * s.element};
}

// A region between the tensor-parallel collectives: without sequence parallelism its output (or input gradient) is
// all-reduced; with it the input is gathered first and the output scattered. `steps` are its kernels, cut where other
// groups synchronise. The last collective may run beside kernels that last `beside`; it then takes its share of the SMs
// from them, which costs as much as if that share of it were exposed.
void add_region(BlockPass& block, const Case& c, const RankShape& s, std::vector<LayerStep> steps, Seconds beside) {
  const double exposed = c.plan.overlap.tp ? 1.0 - c.software.tp_overlap_hidden : 1.0;
  const Bytes bytes = hidden_tensor(c, s);
  BlockPass region;
  if (c.plan.tp > 1) {
    if (c.plan.sequence_parallel) {
      region.steps.push_back(
          {{}, LayerStep::GroupCollective{Purpose::tensor, Collective::all_gather, bytes, exposed, {0}}});
    }
    const Collective op = c.plan.sequence_parallel ? Collective::reduce_scatter : Collective::all_reduce;
    const bool hides = beside.value > 0 && !c.plan.overlap.tp;
    const double least = hides ? std::min(1.0, c.cluster.gpu.achieved.collective_sm_share) : exposed;
    steps.back().collective =
        LayerStep::GroupCollective{Purpose::tensor, op, bytes, least, hides ? beside : Seconds{0}};
  }
  region.steps.insert(region.steps.end(), steps.begin(), steps.end());
  block = block + region;
}

Seconds layer_host_time(const Case& c, Pass pass) {
  double ms = pass == Pass::forward ? c.software.host_forward_ms : c.software.host_backward_ms;
  if (c.plan.tp > 1) ms += c.software.host_tensor_parallel_ms;
  if (c.plan.zero == 3) ms += c.software.host_zero3_hook_ms;
  if (c.train.attention == AttentionKernel::standard && !softmax_is_fused(c)) {
    ms += pass == Pass::forward ? c.software.unfused_softmax_forward_ms : c.software.unfused_softmax_backward_ms;
  }
  return {ms * 1e-3};
}

// A linear layer with the adapters beside it; quantised weights are made 16 bit first.
KernelTime linear_forward(const Case& c, const RankShape& s, const Projection& p,
                          const std::vector<Projection>& adapters) {
  KernelTime time = forward_product(c.cluster.gpu, s.matmul, rows(s), p);
  time += dequantise_time(c, p, Pass::forward);
  time += adapters_time(c, s.tokens, adapters, Pass::forward);
  if (s.matmul == Precision::fp8) {
    const Bytes cast{c.software.fp8_input_cast_bytes * static_cast<double>(p.k) * s.tokens};
    time += streaming_time(c.cluster.gpu, cast, 1);
  }
  return time;
}

BlockPass forward_of_layer(const Case& c, const RankShape& s) {
  const LayerProjections p = layer_projections(c.model, c.plan.tp);
  const LayerAdapters beside = layer_adapters(c.model, c.train.peft, c.plan.tp, c.software.lora_merged_projections);
  const Elementwise between = elementwise(c, s, c.software.forward);
  const auto linear = [&](const Projection& projection, const std::vector<Projection>& adapters) {
    return linear_forward(c, s, projection, adapters);
  };
  BlockPass block;
  const KernelTime core = attention_core(c, s, Pass::forward);
  const auto exchange = key_value_exchange(c, s, Collective::all_gather, core);
  add_region(block, c, s,
             {{between.attention + linear(p.qkv, beside.qkv), exchange},
              {core + linear(p.attention_out, beside.attention_out), {}}},
             {0});
  add_region(block, c, s, {{between.mlp + linear(p.mlp_in, beside.mlp_in) + linear(p.mlp_out, beside.mlp_out), {}}},
             {0});
  block.host = layer_host_time(c, Pass::forward);
  return block;
}

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

// The forward work that recompute of parts of a layer does again at the start of the layer's backward pass. Regions
// gather their input again, and sum their output if they run to their end.
BlockPass redone_parts_of_layer(const Case& c, const RankShape& s) {
  const RedoneParts redone = c.plan.recompute.redone(c.software);
  const LayerProjections p = layer_projections(c.model, c.plan.tp);
  const Elementwise between = elementwise(c, s, redone_passes(c, redone));
  const LayerAdapters low_rank = layer_adapters(c.model, c.train.peft, c.plan.tp, c.software.lora_merged_projections);
  const auto linear = [&](bool runs, const Projection& projection, const std::vector<Projection>& adapters) {
    return runs ? linear_forward(c, s, projection, adapters) : KernelTime{};
  };
  const double exposed = c.plan.overlap.tp ? 1.0 - c.software.tp_overlap_hidden : 1.0;
  BlockPass block;
  const auto add = [&](std::vector<LayerStep> steps, bool gathers, bool sums) {
    const auto collective = [&](Collective op) {
      return LayerStep::GroupCollective{Purpose::tensor, op, hidden_tensor(c, s), exposed, {0}};
    };
    BlockPass region;
    if (gathers && c.plan.tp > 1 && c.plan.sequence_parallel) {
      region.steps.push_back({{}, collective(Collective::all_gather)});
    }
    if (sums && c.plan.tp > 1) {
      steps.back().collective =
          collective(c.plan.sequence_parallel ? Collective::reduce_scatter : Collective::all_reduce);
    }
    region.steps.insert(region.steps.end(), steps.begin(), steps.end());
    block = block + region;
  };
  KernelTime core;
  if (redone.core_attention) core = attention_core(c, s, Pass::forward);
  const auto exchange = redone.core_attention ? key_value_exchange(c, s, Collective::all_gather, core) : std::nullopt;
  add({{between.attention + linear(redone.qkv, p.qkv, low_rank.qkv), exchange},
       {core + linear(redone.attention_out, p.attention_out, low_rank.attention_out), {}}},
      redone.qkv, redone.attention_out);
  add({{between.mlp + linear(redone.mlp_in, p.mlp_in, low_rank.mlp_in) +
            linear(redone.mlp_out, p.mlp_out, low_rank.mlp_out),
        {}}},
      redone.mlp_in, redone.mlp_out);
  const KernelTime whole = forward_of_layer(c, s).compute();
  if (whole.total().value > 0) {
    block.host = layer_host_time(c, Pass::forward) * std::min(1.0, block.compute().total() / whole.total());
  }
  return block;
}

// Of the kernels a layer's backward pass issues, the share that makes weight gradients: four of the eight products,
// which stand beside one of attention and the elementwise ones.
double weight_gradient_kernel_share(const Case& c) { return 4.0 / (9.0 + c.software.backward.kernels); }

BlockPass weight_gradients_of_layer(const Case& c, const RankShape& s) {
  KernelTime products;
  for (const Projection& p : layer_projections(c.model, c.plan.tp).all()) {
    products += weight_gradient(c.cluster.gpu, s.matmul, rows(s), p, gradient_bytes(c));
  }
  BlockPass block;
  block.steps.push_back({products, {}});
  block.host = layer_host_time(c, Pass::backward) * weight_gradient_kernel_share(c);
  return block;
}

BlockPass backward_of_layer(const Case& c, const RankShape& s, Pass pass) {
  const Gpu& gpu = c.cluster.gpu;
  const LayerProjections p = layer_projections(c.model, c.plan.tp);
  const LayerAdapters low_rank = layer_adapters(c.model, c.train.peft, c.plan.tp, c.software.lora_merged_projections);
  const bool frozen = c.train.peft.active();
  const Elementwise between = elementwise(c, s, c.software.backward);
  auto linear = [&](const Projection& projection, const std::vector<Projection>& adapters) {
    KernelTime time = frozen ? input_gradient(gpu, s.matmul, rows(s), projection)
                             : backward_product(gpu, s.matmul, rows(s), projection, gradient_bytes(c), pass);
    time += dequantise_time(c, projection, Pass::backward);
    time += adapters_time(c, s.tokens, adapters, Pass::backward);
    if (s.matmul == Precision::fp8) {
      time +=
          streaming_time(gpu, {c.software.fp8_gradient_cast_bytes * static_cast<double>(projection.n) * s.tokens}, 1);
    }
    return time;
  };
  KernelTime core = attention_core(c, s, Pass::backward);
  // Flash kernels keep no scores, so there is nothing for selective recompute to do again.
  if (c.plan.recompute.of_attention_core(c.software) && c.train.attention == AttentionKernel::standard) {
    core += attention_core(c, s, Pass::forward);
  }
  BlockPass block;
  if (c.plan.recompute.of_parts()) block = redone_parts_of_layer(c, s);
  const Seconds host_again = block.host;
  // Keys and values come round again, and their gradients go back to where they belong.
  const auto gather = key_value_exchange(c, s, Collective::all_gather, core * 0.5);
  const auto scatter = key_value_exchange(c, s, Collective::reduce_scatter, core * 0.5);
  // The input gradient of a region is summed over the ranks while its weight gradient is still computed.
  const auto beside = [&](const Projection& projection) {
    if (!c.software.tp_backward_overlap || frozen || pass == Pass::input_gradient) return Seconds{0};
    return weight_gradient(gpu, s.matmul, rows(s), projection, gradient_bytes(c)).total();
  };
  add_region(block, c, s, {{between.mlp + linear(p.mlp_out, low_rank.mlp_out) + linear(p.mlp_in, low_rank.mlp_in), {}}},
             beside(p.mlp_in));
  add_region(block, c, s,
             {{between.attention + linear(p.attention_out, low_rank.attention_out), gather},
              {core, scatter},
              {linear(p.qkv, low_rank.qkv), {}}},
             beside(p.qkv));
  const double share = pass == Pass::input_gradient ? 1.0 - weight_gradient_kernel_share(c) : 1.0;
  block.host = host_again + layer_host_time(c, Pass::backward) * share;
  return block;
}

BlockPass embedding_pass(const Case& c, const RankShape& s, Pass pass) {
  // Forward reads and writes one row a token; backward reads the gradient and adds it into the table's gradient.
  const double passes = pass == Pass::forward ? 2.0 : 3.0;
  const double width = static_cast<double>(c.model.hidden) * s.element;
  BlockPass block;
  // A frozen table has no gradient: the backward pass ends before it.
  if (pass == Pass::backward && c.train.peft.active() && !c.train.peft.full_embedding) {
    block.steps.push_back({streaming_time(c.cluster.gpu, {0}, 1), {}});
    return block;
  }
  LayerStep step{streaming_time(c.cluster.gpu, {passes * s.tokens * width}, 2), {}};
  if (c.plan.tp > 1 && (pass == Pass::forward || c.plan.sequence_parallel)) {
    const Collective op = !c.plan.sequence_parallel ? Collective::all_reduce
                          : pass == Pass::forward   ? Collective::reduce_scatter
                                                    : Collective::all_gather;
    step.collective = LayerStep::GroupCollective{Purpose::tensor, op, hidden_tensor(c, s), 1.0, {0}};
  }
  block.steps.push_back(step);
  return block;
}

BlockPass weight_gradient_of_head(const Case& c, const RankShape& s) {
  const std::int64_t vocabulary = stored_vocabulary(c.model, c.plan.tp, c.software.pads_vocabulary);
  const Projection head{vocabulary / c.plan.tp, c.model.hidden};
  KernelTime time = weight_gradient(c.cluster.gpu, s.rest, rows(s), head, gradient_bytes(c));
  if (head.n % 2 != 0) time.matmul *= c.software.odd_vocabulary_slowdown;
  BlockPass block;
  block.steps.push_back({time, {}});
  return block;
}

// A third of the loss traffic is forward, two thirds backward (cross entropy reads the logits once, then rewrites them
// as their gradient).
BlockPass head_pass(const Case& c, const RankShape& s, Pass pass) {
  const Gpu& gpu = c.cluster.gpu;
  const std::int64_t vocabulary = stored_vocabulary(c.model, c.plan.tp, c.software.pads_vocabulary);
  const Projection head{vocabulary / c.plan.tp, c.model.hidden};
  const bool frozen = c.train.peft.active() && !c.train.peft.full_head;
  KernelTime time = pass == Pass::forward ? forward_product(gpu, s.rest, rows(s), head)
                    : frozen              ? input_gradient(gpu, s.rest, rows(s), head)
                                          : backward_product(gpu, s.rest, rows(s), head, gradient_bytes(c), pass);
  if (head.n % 2 != 0) time.matmul *= c.software.odd_vocabulary_slowdown;
  if (c.software.quantises_head) time += dequantise_time(c, head, pass);
  const double share = pass == Pass::forward ? 1.0 / 3.0 : 2.0 / 3.0;
  const double logits = s.tokens * static_cast<double>(head.n);
  time += streaming_time(gpu, {share * c.software.loss_bytes_per_logit * logits}, pass == Pass::forward ? 6 : 4);

  BlockPass block;
  if (c.plan.tp == 1) {
    block.steps.push_back({time, {}});
  } else if (pass == Pass::forward) {
    if (c.plan.sequence_parallel) {
      block.steps.push_back(
          {{}, LayerStep::GroupCollective{Purpose::tensor, Collective::all_gather, hidden_tensor(c, s), 1.0, {0}}});
    }
    // Vocabulary-parallel cross entropy agrees on the maximum, the target's logit and the sum: 4 bytes a token each.
    const LayerStep::GroupCollective statistic{Purpose::tensor, Collective::all_reduce, {4.0 * s.tokens}, 1.0, {0}};
    block.steps.push_back({time, statistic});
    block.steps.push_back({{}, statistic});
    block.steps.push_back({{}, statistic});
  } else {
    const Collective op = c.plan.sequence_parallel ? Collective::reduce_scatter : Collective::all_reduce;
    block.steps.push_back({time, LayerStep::GroupCollective{Purpose::tensor, op, hidden_tensor(c, s), 1.0, {0}}});
  }
  block.host = {c.software.micro_batch_overhead_ms * 1e-3 / 2.0};
  return block;
}

}  // namespace

KernelTime BlockPass::compute() const {
  KernelTime sum;
  for (const LayerStep& step : steps) sum += step.compute;
  return sum;
}

BlockPass operator+(BlockPass first, const BlockPass& second) {
  for (const LayerStep& step : second.steps) {
    if (!first.steps.empty() && !first.steps.back().collective) {
      first.steps.back().compute += step.compute;
      first.steps.back().collective = step.collective;
    } else {
      first.steps.push_back(step);
    }
  }
  first.host += second.host;
  return first;
}

LayerCosts::LayerCosts(const Case& subject) {
  const RankShape s = shape_of(subject);
  layer_[index(Pass::forward)] = forward_of_layer(subject, s);
  layer_[index(Pass::weight_gradient)] = weight_gradients_of_layer(subject, s);
  head_[index(Pass::weight_gradient)] = weight_gradient_of_head(subject, s);
  for (Pass pass : {Pass::backward, Pass::input_gradient}) {
    layer_[index(pass)] = backward_of_layer(subject, s, pass);
    layer_recomputed_[index(pass)] = layer_[index(Pass::forward)] + layer_[index(pass)];
  }
  for (Pass pass : {Pass::forward, Pass::backward, Pass::input_gradient}) {
    embedding_[index(pass)] = embedding_pass(subject, s, pass);
    head_[index(pass)] = head_pass(subject, s, pass);
  }
}

}  // namespace foretrain
