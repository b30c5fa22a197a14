#include "sim/workload/layer_cost.h"

#include <algorithm>

#include "sim/workload/adapter_cost.h"
#include "sim/workload/layer_parts.h"

namespace foretrain {

double gradient_bytes(const Case& c) {
  const double stored = c.software.state_bytes(c.plan.zero, c.train.precision == Precision::bf16).gradients;
  return stored >= 4 ? 4 : 2;
}

double quantise_bytes(const Case& c, Pass pass) {
  if (c.train.precision == Precision::nvfp4) return 3 * 2 + 2 * operand_bytes(Precision::nvfp4);
  switch (c.train.fp8.recipe) {
    case Fp8::Recipe::as_framework:
      return pass == Pass::forward ? c.software.fp8_input_cast_bytes : c.software.fp8_gradient_cast_bytes;
    case Fp8::Recipe::tensor:
      return 2 + 1;
    case Fp8::Recipe::block:
      return 2 + 2 * (1 + c.train.fp8.activation_scale_bytes());
  }
  return 0;
}

RankShape shape_of(const Case& c) {
  RankShape s;
  s.tokens = static_cast<double>(c.plan.micro_batch * c.train.seq_len / c.plan.cp);
  s.tp = c.plan.tp;
  s.hidden_shards = c.plan.sequence_parallel ? c.plan.tp : 1;
  s.element = element_bytes(c.train.precision);
  s.matmul = c.train.precision;
  s.rest = unquantised(c.train.precision);
  return s;
}

KernelTime forward_product(const Case& c, Precision precision, double tokens, const Projection& p) {
  return gemm_time(c.cluster.gpu, precision, {.m = static_cast<std::int64_t>(tokens), .n = p.n, .k = p.k});
}

KernelTime weight_gradient(const Case& c, Precision precision, double tokens, const Projection& p) {
  return gemm_time(c.cluster.gpu, precision,
                   {.m = p.n,
                    .n = p.k,
                    .k = static_cast<std::int64_t>(tokens),
                    .accumulate = true,
                    .output_bytes = gradient_bytes(c)});
}

KernelTime input_gradient(const Case& c, Precision precision, double tokens, const Projection& p) {
  return gemm_time(c.cluster.gpu, precision, {.m = static_cast<std::int64_t>(tokens), .n = p.k, .k = p.n});
}

LayerAdapters adapters_of_layer(const Case& c, LayerKind kind) {
  return layer_adapters(c.model, c.train.peft, kind, c.plan.tp, c.plan.etp, c.software.lora_merged_projections);
}

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

KernelList linear_pass(const Case& c, const RankShape& s, const Projection& p, double tokens, Pass pass,
                       const std::vector<Projection>& adapters) {
  const auto of_weight = [&] { return KernelList{p.name, "weight gradient", weight_gradient(c, s.matmul, tokens, p)}; };
  if (pass == Pass::weight_gradient) return of_weight();
  const bool forward = pass == Pass::forward;
  const Pass way = forward ? Pass::forward : Pass::backward;
  KernelList list = forward ? KernelList{p.name, "gemm", forward_product(c, s.matmul, tokens, p)}
                            : KernelList{p.name, "input gradient", input_gradient(c, s.matmul, tokens, p)};
  if (pass == Pass::backward && !c.train.peft.active()) list += of_weight();
  list += {p.name, "dequantise", dequantise_time(c, p, way)};
  list += {p.name, "adapters", adapters_time(c, tokens, adapters, way)};
  if (is_quantised(s.matmul) && p.n > 0) {
    const double bytes = quantise_bytes(c, pass) * static_cast<double>(forward ? p.k : p.n);
    list += {p.name, "quantise", streaming_time(c.cluster.gpu, {bytes * tokens}, 1)};
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

namespace {

// Where every release of gathered weights waits for the GPU, the hooks around it run while that is idle.
Seconds release_stall(const Case& c) {
  const bool waits = c.plan.zeropp.secondary && c.software.zeropp_rewrites_second_copy;
  return {waits ? c.software.host_zero3_hook_ms * 1e-3 : 0.0};
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

}  // namespace

BlockPass forward_of_layer(const Case& c, const RankShape& s, LayerKind kind) {
  const LayerProjections p = layer_projections(c.model, c.plan.tp);
  const LayerAdapters low_rank = adapters_of_layer(c, kind);
  const Elementwise between = elementwise(c, s, c.software.forward);
  const auto linear = [&](const Projection& projection, const std::vector<Projection>& adapters) {
    return linear_pass(c, s, projection, s.tokens, Pass::forward, adapters);
  };
  const auto hidden = static_cast<double>(c.model.hidden);
  BlockPass block;
  if (kind.predictor) add_prediction_input(block, c, s, Pass::forward);
  const KernelList core = attention_core(c, s, kind, Pass::forward);
  const ContextExchange exchange = context_exchange(c, s, Pass::forward, core.total());
  const AttentionInputs inputs = attention_inputs(c, s, Pass::forward, low_rank);
  if (c.model.mla) block = block + BlockPass{{{inputs.narrow, {}}}, {0}, {0}};
  add_region(block, c, s,
             {{between.attention + inputs.wide, exchange.before},
              {core, exchange.after},
              {linear(p.attention_out, low_rank.attention_out), {}}},
             {0}, inputs.gathered_width);
  if (kind.experts) {
    add_experts(block, c, s, kind, Pass::forward, between.norms, block.compute().total());
  } else {
    add_region(block, c, s,
               {{between.mlp + linear(p.mlp_in, low_rank.mlp_in) + linear(p.mlp_out, low_rank.mlp_out), {}}}, {0},
               hidden);
  }
  block.host = layer_host_time(c, kind, Pass::forward);
  block.stall += release_stall(c);
  return block;
}

namespace {

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
  if (kind.experts) add_experts(block, c, s, kind, Pass::weight_gradient, {}, {0});
  if (kind.predictor) add_prediction_input(block, c, s, Pass::weight_gradient);
  block.host = layer_host_time(c, kind, Pass::backward) * weight_gradient_kernel_share(c);
  return block;
}

BlockPass backward_of_layer(const Case& c, const RankShape& s, LayerKind kind, Pass pass) {
  const LayerProjections p = layer_projections(c.model, c.plan.tp);
  const LayerAdapters low_rank = adapters_of_layer(c, kind);
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
  const ContextExchange exchange = context_exchange(c, s, Pass::backward, core.total());
  // The input gradient of a region is summed over the ranks while its weight gradient is still computed.
  const auto beside = [&](const Projection& projection) {
    if (!c.software.tp_backward_overlap || frozen || pass == Pass::input_gradient) return Seconds{0};
    return weight_gradient(c, s.matmul, s.tokens, projection).total();
  };
  const AttentionInputs inputs = attention_inputs(c, s, pass, low_rank);
  if (kind.experts) {
    const KernelList attention =
        between.attention + linear(p.attention_out, low_rank.attention_out) + core + inputs.wide + inputs.narrow;
    add_experts(block, c, s, kind, pass, between.norms, attention.total());
  } else {
    add_region(block, c, s,
               {{between.mlp + linear(p.mlp_out, low_rank.mlp_out) + linear(p.mlp_in, low_rank.mlp_in), {}}},
               beside(p.mlp_in), hidden);
  }
  const Projection& first = c.model.mla ? latent_projections(c.model, c.plan.tp).q_up : p.qkv;
  add_region(block, c, s,
             {{between.attention + linear(p.attention_out, low_rank.attention_out), exchange.before},
              {core, exchange.after},
              {inputs.wide, {}}},
             beside(first), hidden);
  if (c.model.mla) block = block + BlockPass{{{inputs.narrow, {}}}, {0}, {0}};
  if (kind.predictor) add_prediction_input(block, c, s, pass);
  const double share = pass == Pass::input_gradient ? 1.0 - weight_gradient_kernel_share(c) : 1.0;
  block.host = host_again + layer_host_time(c, kind, Pass::backward) * share;
  block.stall += release_stall(c);
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
  head_[index(Pass::weight_gradient)] = head_pass(subject, s, Pass::weight_gradient);
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
