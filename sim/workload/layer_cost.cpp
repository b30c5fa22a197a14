#include "sim/workload/layer_cost.h"

#include <algorithm>
#include <cmath>

#include "sim/model/operators.h"
#include "sim/workload/adapter_cost.h"
#include "sim/workload/layer_parts.h"

namespace foretrain {

double gradient_bytes(const Case& c) {
  const double stored = c.software.state_bytes(c.plan.zero, c.train.precision == Precision::bf16).gradients;
  return stored >= 4 ? 4 : 2;
}

namespace {

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
KernelList backward_product(const Gpu& gpu, Precision precision, std::int64_t tokens, const Projection& p,
                            double gradient_bytes, Pass pass) {
  KernelList list{p.name, "input gradient", input_gradient(gpu, precision, tokens, p)};
  if (pass == Pass::input_gradient) return list;
  return list += {p.name, "weight gradient", weight_gradient(gpu, precision, tokens, p, gradient_bytes)};
}

// The attention core runs one of the flash kernels or the unfused chain. Megatron's fused scale-mask-softmax kernel
// needs the rows of its batch of heads to come in fours (study of whole steps: tp 8 with 16 heads).
bool softmax_is_fused(const Case& c) {
  return c.software.fused_softmax &&
         (c.plan.micro_batch * c.model.heads / c.plan.tp) % c.software.fused_softmax_multiple == 0;
}

KernelList attention_core(const Case& c, const RankShape& s, LayerKind kind, Pass pass) {
  const AttentionShape shape{.batch = c.plan.micro_batch,
                             .heads = c.model.heads / c.plan.tp,
                             .head_dim = c.model.head_dim,
                             .seq = c.train.seq_len,
                             .causal = true,
                             .value_dim = c.model.value_dim(),
                             .window = kind.windowed ? c.model.window : 0};
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
  return {"attention", pass == Pass::forward ? "forward" : "backward", time};
}

// The exchange of keys and values (or, scattered, of their gradients) among the ranks that split the sequences. A ring
// passes parts on while the attention works on what it has.
std::optional<LayerStep::GroupCollective> key_value_exchange(const Case& c, const RankShape& s, Collective op,
                                                             Seconds core) {
  if (c.plan.cp == 1) return std::nullopt;
  const auto heads = static_cast<double>(std::max<std::int64_t>(1, c.model.kv_heads / c.plan.tp));
  const double width = heads * static_cast<double>(c.model.head_dim + c.model.value_dim());
  const Bytes bytes{width * s.tokens * c.plan.cp * s.element};
  if (c.plan.context == ContextParallel::all_gather)
    return LayerStep::GroupCollective{Purpose::context, op, bytes, 1.0, {0}};
  const double beside = static_cast<double>(c.plan.cp - 1) / c.plan.cp;
  return LayerStep::GroupCollective{Purpose::context, op, bytes, c.software.cp_exposed, core * beside};
}

// Elementwise kernels of the attention half and of the MLP half of a layer; `norms` is the part of the latter that is
// of the hidden width.
struct Elementwise {
  KernelList attention, mlp, norms;
};

Elementwise elementwise(const Case& c, const RankShape& s, const Software::ElementwisePasses& passes) {
  const double per_token = s.element * s.tokens;
  const Bytes hidden{per_token * passes.hidden * static_cast<double>(c.model.hidden) / s.hidden_shards};
  const Bytes attention{per_token * passes.attention * static_cast<double>(c.model.query_width()) / s.tp};
  const Bytes ffn{per_token * passes.ffn * static_cast<double>(c.model.ffn) / s.tp};
  const auto kernels = [&](const char* of, Bytes bytes) {
    return KernelList{of, "elementwise", streaming_time(c.cluster.gpu, bytes, passes.kernels / 2.0)};
  };
  return {kernels("attention half", hidden / 2.0 + attention), kernels("mlp half", hidden / 2.0 + ffn),
          kernels("expert half", hidden / 2.0)};
}

Bytes hidden_tensor(const Case& c, const RankShape& s) {
  return {s.tokens * static_cast<double>(c.model.hidden) * s.element};
}

}  // namespace

KernelList linear_pass(const Case& c, const RankShape& s, const Projection& p, double tokens, Pass pass,
                       const std::vector<Projection>& adapters) {
  const Gpu& gpu = c.cluster.gpu;
  const auto m = static_cast<std::int64_t>(tokens);
  if (pass == Pass::weight_gradient) {
    return {p.name, "weight gradient", weight_gradient(gpu, s.matmul, m, p, gradient_bytes(c))};
  }
  const bool forward = pass == Pass::forward;
  const Pass way = forward ? Pass::forward : Pass::backward;
  const Pass products = c.train.peft.active() ? Pass::input_gradient : pass;
  KernelList list = forward ? KernelList{p.name, "gemm", forward_product(gpu, s.matmul, m, p)}
                            : backward_product(gpu, s.matmul, m, p, gradient_bytes(c), products);
  list += {p.name, "dequantise", dequantise_time(c, p, way)};
  list += {p.name, "adapters", adapters_time(c, tokens, adapters, way)};
  if (s.matmul == Precision::fp8 && p.n > 0) {
    const double bytes = forward ? c.software.fp8_input_cast_bytes * static_cast<double>(p.k)
                                 : c.software.fp8_gradient_cast_bytes * static_cast<double>(p.n);
    list += {p.name, "fp8 cast", streaming_time(gpu, {bytes * tokens}, 1)};
  }
  return list;
}

// A region between the tensor-parallel collectives: without sequence parallelism its output (or input gradient) is
// all-reduced; with it the input is gathered first and the output scattered. `steps` are its kernels, cut where other
// groups synchronise. The last collective may run beside kernels that last `beside`; it then takes its share of the SMs
// from them, which costs as much as if that share of it were exposed.
// `gathered_width`: elements of a token in the tensor that is gathered.
void add_region(BlockPass& block, const Case& c, const RankShape& s, std::vector<LayerStep> steps, Seconds beside,
                double gathered_width) {
  const double exposed = c.plan.overlap.tp ? 1.0 - c.software.tp_overlap_hidden : 1.0;
  const Bytes bytes = hidden_tensor(c, s);
  BlockPass region;
  if (c.plan.tp > 1) {
    if (c.plan.sequence_parallel) {
      region.steps.push_back(
          {{},
           LayerStep::GroupCollective{
               Purpose::tensor, Collective::all_gather, {s.tokens * gathered_width * s.element}, exposed, {0}}});
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

namespace {

Seconds layer_host_time(const Case& c, LayerKind kind, Pass pass) {
  double ms = pass == Pass::forward ? c.software.host_forward_ms : c.software.host_backward_ms;
  if (kind.experts) {
    ms += pass == Pass::forward ? c.software.experts.host_forward_ms : c.software.experts.host_backward_ms;
  }
  if (c.plan.tp > 1) ms += c.software.host_tensor_parallel_ms;
  if (c.plan.zero == 3) ms += c.software.host_zero3_hook_ms;
  if (c.train.attention == AttentionKernel::standard && !softmax_is_fused(c)) {
    ms += pass == Pass::forward ? c.software.unfused_softmax_forward_ms : c.software.unfused_softmax_backward_ms;
  }
  return {ms * 1e-3};
}

// The projections before the attention core: one product for Q, K and V, or the narrow and wide ones of latent
// attention. The narrow ones are whole on every rank and work on the rank's part of the sequence.
struct AttentionInputs {
  KernelList narrow, wide;
  double gathered_width = 0;  // what a tensor-parallel region gathers of a token
};

AttentionInputs attention_inputs(const Case& c, const RankShape& s, Pass pass,
                                 const std::vector<Projection>& adapters = {}) {
  const Model& m = c.model;
  const auto hidden = static_cast<double>(m.hidden);
  if (!m.mla) return {{}, linear_pass(c, s, layer_projections(m, c.plan.tp).qkv, s.tokens, pass, adapters), hidden};
  const LatentProjections p = latent_projections(m, c.plan.tp);
  const double part = s.tokens / s.hidden_shards;
  const auto compressed = static_cast<double>(m.mla->kv_lora + m.mla->qk_rope);
  const double queries = m.mla->q_lora > 0 ? static_cast<double>(m.mla->q_lora) : hidden;
  KernelList narrow = linear_pass(c, s, p.kv_down, part, pass);
  if (m.mla->q_lora > 0) narrow += linear_pass(c, s, p.q_down, part, pass);
  if (pass == Pass::weight_gradient) {
    return {narrow, linear_pass(c, s, p.q_up, s.tokens, pass) + linear_pass(c, s, p.kv_up, s.tokens, pass), 0};
  }
  // Norms of the compressed vectors; the keys' two parts are written into one tensor, and their gradient cut again.
  const double norms = (pass == Pass::forward ? 2.0 : 4.0) * part * (compressed + queries);
  const double keys = (pass == Pass::forward ? 4.0 : 5.0) * s.tokens * static_cast<double>(m.query_width()) / s.tp;
  narrow += {"latent attention", "norms", streaming_time(c.cluster.gpu, {norms * s.element}, 2)};
  KernelList wide = linear_pass(c, s, p.q_up, s.tokens, pass) + linear_pass(c, s, p.kv_up, s.tokens, pass);
  wide += {"latent attention", "copies of keys", streaming_time(c.cluster.gpu, {keys * s.element}, 4)};
  return {narrow, wide, queries + compressed};
}

// The projection of a prediction module: the hidden vector and the next token's embedding to one vector.
void add_prediction_input(BlockPass& block, const Case& c, const RankShape& s, Pass pass) {
  const Projection p{c.model.hidden / c.plan.tp, 2 * c.model.hidden, "prediction input"};
  if (pass == Pass::weight_gradient) {
    block = block + BlockPass{{{linear_pass(c, s, p, s.tokens, pass), {}}}, {0}, {0}};
    return;
  }
  const double width = static_cast<double>(c.model.hidden) * s.element / s.hidden_shards;
  const double traffic = (pass == Pass::forward ? 8.0 : 14.0) * s.tokens * width;
  const KernelList norms{p.name, "norms", streaming_time(c.cluster.gpu, {traffic}, 8)};
  const KernelList list = linear_pass(c, s, p, s.tokens, pass) + norms;
  add_region(block, c, s, {{list, {}}}, {0}, 2.0 * static_cast<double>(c.model.hidden));
}

BlockPass forward_of_layer(const Case& c, const RankShape& s, LayerKind kind) {
  const LayerProjections p = layer_projections(c.model, c.plan.tp);
  const LayerAdapters low_rank = layer_adapters(c.model, c.train.peft, c.plan.tp, c.software.lora_merged_projections);
  const Elementwise between = elementwise(c, s, c.software.forward);
  const auto linear = [&](const Projection& projection, const std::vector<Projection>& adapters) {
    return linear_pass(c, s, projection, s.tokens, Pass::forward, adapters);
  };
  const auto hidden = static_cast<double>(c.model.hidden);
  BlockPass block;
  if (kind.predictor) add_prediction_input(block, c, s, Pass::forward);
  const KernelList core = attention_core(c, s, kind, Pass::forward);
  const auto exchange = key_value_exchange(c, s, Collective::all_gather, core.total());
  const AttentionInputs inputs = attention_inputs(c, s, Pass::forward, low_rank.qkv);
  if (c.model.mla) block = block + BlockPass{{{inputs.narrow, {}}}, {0}, {0}};
  add_region(
      block, c, s,
      {{between.attention + inputs.wide, exchange}, {core + linear(p.attention_out, low_rank.attention_out), {}}}, {0},
      inputs.gathered_width);
  if (kind.experts) {
    add_experts(block, c, s, Pass::forward, between.norms, block.compute().total());
  } else {
    add_region(block, c, s,
               {{between.mlp + linear(p.mlp_in, low_rank.mlp_in) + linear(p.mlp_out, low_rank.mlp_out), {}}}, {0},
               hidden);
  }
  block.host = layer_host_time(c, kind, Pass::forward);
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
BlockPass redone_parts_of_layer(const Case& c, const RankShape& s, LayerKind kind) {
  const RedoneParts redone = c.plan.recompute.redone(c.software);
  const LayerProjections p = layer_projections(c.model, c.plan.tp);
  const Elementwise between = elementwise(c, s, redone_passes(c, redone));
  const LayerAdapters low_rank = layer_adapters(c.model, c.train.peft, c.plan.tp, c.software.lora_merged_projections);
  const auto linear = [&](bool runs, const Projection& projection, const std::vector<Projection>& adapters) {
    return runs ? linear_pass(c, s, projection, s.tokens, Pass::forward, adapters) : KernelList{};
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
  KernelList core;
  if (redone.core_attention) core = attention_core(c, s, kind, Pass::forward);
  const auto exchange =
      redone.core_attention ? key_value_exchange(c, s, Collective::all_gather, core.total()) : std::nullopt;
  add({{between.attention + linear(redone.qkv, p.qkv, low_rank.qkv), exchange},
       {core + linear(redone.attention_out, p.attention_out, low_rank.attention_out), {}}},
      redone.qkv, redone.attention_out);
  add({{between.mlp + linear(redone.mlp_in, p.mlp_in, low_rank.mlp_in) +
            linear(redone.mlp_out, p.mlp_out, low_rank.mlp_out),
        {}}},
      redone.mlp_in, redone.mlp_out);
  const KernelTime whole = forward_of_layer(c, s, kind).compute();
  if (whole.total().value > 0) {
    block.host = layer_host_time(c, kind, Pass::forward) * std::min(1.0, block.compute().total() / whole.total());
  }
  return block;
}

// Of the kernels a layer's backward pass issues, the share that makes weight gradients: four of the eight products,
// which stand beside one of attention and the elementwise ones.
double weight_gradient_kernel_share(const Case& c) { return 4.0 / (9.0 + c.software.backward.kernels); }

BlockPass weight_gradients_of_layer(const Case& c, const RankShape& s, LayerKind kind) {
  const LayerProjections p = layer_projections(c.model, c.plan.tp);
  auto of = [&](const Projection& projection) {
    return linear_pass(c, s, projection, s.tokens, Pass::weight_gradient);
  };
  KernelList products;
  if (c.model.mla) {
    const AttentionInputs inputs = attention_inputs(c, s, Pass::weight_gradient);
    products += inputs.wide + inputs.narrow;
  } else {
    products += of(p.qkv);
  }
  products += of(p.attention_out);
  if (!kind.experts) {
    products += of(p.mlp_in);
    products += of(p.mlp_out);
  }
  BlockPass block;
  block.steps.push_back({products, {}});
  if (kind.experts) add_experts(block, c, s, Pass::weight_gradient, {}, {0});
  if (kind.predictor) add_prediction_input(block, c, s, Pass::weight_gradient);
  block.host = layer_host_time(c, kind, Pass::backward) * weight_gradient_kernel_share(c);
  return block;
}

BlockPass backward_of_layer(const Case& c, const RankShape& s, LayerKind kind, Pass pass) {
  const Gpu& gpu = c.cluster.gpu;
  const LayerProjections p = layer_projections(c.model, c.plan.tp);
  const LayerAdapters low_rank = layer_adapters(c.model, c.train.peft, c.plan.tp, c.software.lora_merged_projections);
  const bool frozen = c.train.peft.active();
  const Elementwise between = elementwise(c, s, c.software.backward);
  const auto linear = [&](const Projection& projection, const std::vector<Projection>& adapters) {
    return linear_pass(c, s, projection, s.tokens, pass, adapters);
  };
  const auto hidden = static_cast<double>(c.model.hidden);
  KernelList core = attention_core(c, s, kind, Pass::backward);
  // Flash kernels keep no scores, so there is nothing for selective recompute to do again.
  if (c.plan.recompute.of_attention_core(c.software) && c.train.attention == AttentionKernel::standard) {
    core += attention_core(c, s, kind, Pass::forward);
  }
  BlockPass block;
  if (c.plan.recompute.of_parts()) block = redone_parts_of_layer(c, s, kind);
  const Seconds host_again = block.host;
  const Seconds core_half = (core.time() * 0.5).total();
  // Keys and values come round again, and their gradients go back to where they belong.
  const auto gather = key_value_exchange(c, s, Collective::all_gather, core_half);
  const auto scatter = key_value_exchange(c, s, Collective::reduce_scatter, core_half);
  // The input gradient of a region is summed over the ranks while its weight gradient is still computed.
  const auto beside = [&](const Projection& projection) {
    if (!c.software.tp_backward_overlap || frozen || pass == Pass::input_gradient) return Seconds{0};
    return weight_gradient(gpu, s.matmul, rows(s), projection, gradient_bytes(c)).total();
  };
  const AttentionInputs inputs = attention_inputs(c, s, pass, low_rank.qkv);
  if (kind.experts) {
    const KernelList attention =
        between.attention + linear(p.attention_out, low_rank.attention_out) + core + inputs.wide + inputs.narrow;
    add_experts(block, c, s, pass, between.norms, attention.total());
  } else {
    add_region(block, c, s,
               {{between.mlp + linear(p.mlp_out, low_rank.mlp_out) + linear(p.mlp_in, low_rank.mlp_in), {}}},
               beside(p.mlp_in), hidden);
  }
  const Projection& first = c.model.mla ? latent_projections(c.model, c.plan.tp).q_up : p.qkv;
  add_region(block, c, s,
             {{between.attention + linear(p.attention_out, low_rank.attention_out), gather},
              {core, scatter},
              {inputs.wide, {}}},
             beside(first), hidden);
  if (c.model.mla) block = block + BlockPass{{{inputs.narrow, {}}}, {0}, {0}};
  if (kind.predictor) add_prediction_input(block, c, s, pass);
  const double share = pass == Pass::input_gradient ? 1.0 - weight_gradient_kernel_share(c) : 1.0;
  block.host = host_again + layer_host_time(c, kind, Pass::backward) * share;
  return block;
}

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

BlockPass weight_gradient_of_head(const Case& c, const RankShape& s) {
  const std::int64_t vocabulary = stored_vocabulary(c.model, c.plan.tp, c.software.pads_vocabulary);
  const Projection head{vocabulary / c.plan.tp, c.model.hidden};
  KernelTime time = weight_gradient(c.cluster.gpu, s.rest, rows(s), head, gradient_bytes(c));
  if (head.n % 2 != 0) time.matmul *= c.software.odd_vocabulary_slowdown;
  BlockPass block;
  block.steps.push_back({{"head", "weight gradient", time}, {}});
  return block;
}

// A third of the loss traffic is forward, two thirds backward (cross entropy reads the logits once, then rewrites them
// as their gradient).
BlockPass head_pass(const Case& c, const RankShape& s, Pass pass) {
  const Gpu& gpu = c.cluster.gpu;
  const std::int64_t vocabulary = stored_vocabulary(c.model, c.plan.tp, c.software.pads_vocabulary);
  const Projection head{vocabulary / c.plan.tp, c.model.hidden};
  const bool frozen = c.train.peft.active() && !c.train.peft.full_head;
  const Pass products = frozen ? Pass::input_gradient : pass;
  KernelTime time = pass == Pass::forward
                        ? forward_product(gpu, s.rest, rows(s), head)
                        : backward_product(gpu, s.rest, rows(s), head, gradient_bytes(c), products).time();
  if (head.n % 2 != 0) time.matmul *= c.software.odd_vocabulary_slowdown;
  KernelList list{"head", pass == Pass::forward ? "gemm" : "gradients", time};
  if (c.software.quantises_head) list += {"head", "dequantise", dequantise_time(c, head, pass)};
  const double share = pass == Pass::forward ? 1.0 / 3.0 : 2.0 / 3.0;
  const double logits = s.tokens * static_cast<double>(head.n);
  const double loss = share * c.software.loss_bytes_per_logit * logits;
  list += {"cross entropy", "", streaming_time(gpu, {loss}, pass == Pass::forward ? 6 : 4)};

  BlockPass block;
  if (c.plan.tp == 1) {
    block.steps.push_back({list, {}});
  } else if (pass == Pass::forward) {
    if (c.plan.sequence_parallel) {
      block.steps.push_back(
          {{}, LayerStep::GroupCollective{Purpose::tensor, Collective::all_gather, hidden_tensor(c, s), 1.0, {0}}});
    }
    // Vocabulary-parallel cross entropy agrees on the maximum, the target's logit and the sum: 4 bytes a token each.
    const LayerStep::GroupCollective statistic{Purpose::tensor, Collective::all_reduce, {4.0 * s.tokens}, 1.0, {0}};
    block.steps.push_back({list, statistic});
    block.steps.push_back({{}, statistic});
    block.steps.push_back({{}, statistic});
  } else {
    const Collective op = c.plan.sequence_parallel ? Collective::reduce_scatter : Collective::all_reduce;
    block.steps.push_back({list, LayerStep::GroupCollective{Purpose::tensor, op, hidden_tensor(c, s), 1.0, {0}}});
  }
  block.host = {c.software.micro_batch_overhead_ms * 1e-3 / 2.0};
  return block;
}

}  // namespace

KernelTime BlockPass::compute() const {
  KernelTime sum;
  for (const LayerStep& step : steps) sum += step.compute.time();
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
  first.stall += second.stall;
  return first;
}

LayerCosts::LayerCosts(const Case& subject) {
  const RankShape s = shape_of(subject);
  const Model& m = subject.model;
  for (std::int64_t layer = 0; layer < m.layers; ++layer) prepare(subject, m.layer_kind(layer));
  if (m.mtp > 0) prepare(subject, m.predictor_kind());
  head_[index(Pass::weight_gradient)] = weight_gradient_of_head(subject, s);
  for (Pass pass : {Pass::forward, Pass::backward, Pass::input_gradient}) {
    embedding_[index(pass)] = embedding_pass(subject, s, pass);
    head_[index(pass)] = head_pass(subject, s, pass);
  }
  // Every prediction module puts its own hidden vectors through the head.
  const OfPass head = head_;
  for (std::int64_t module = 0; module < m.mtp; ++module) {
    for (std::size_t pass = 0; pass < head.size(); ++pass) head_[pass] = head_[pass] + head[pass];
  }
}

void LayerCosts::prepare(const Case& subject, LayerKind kind) {
  Layer& layer = layers_[static_cast<std::size_t>(kind.index())];
  if (!layer.plain[index(Pass::forward)].steps.empty()) return;  // known
  const RankShape s = shape_of(subject);
  layer.plain[index(Pass::forward)] = forward_of_layer(subject, s, kind);
  layer.plain[index(Pass::weight_gradient)] = weight_gradients_of_layer(subject, s, kind);
  layer.recomputed = layer.plain;
  for (Pass pass : {Pass::backward, Pass::input_gradient}) {
    layer.plain[index(pass)] = backward_of_layer(subject, s, kind, pass);
    layer.recomputed[index(pass)] = layer.plain[index(Pass::forward)] + layer.plain[index(pass)];
  }
}

}  // namespace foretrain
