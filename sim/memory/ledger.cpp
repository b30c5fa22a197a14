#include "sim/memory/ledger.h"

#include <algorithm>
#include <cmath>

#include "sim/model/operators.h"

namespace foretrain {
namespace {

// Of a micro-batch, on one rank.
double tokens_of(const Case& c) { return static_cast<double>(c.plan.micro_batch * c.train.seq_len / c.plan.cp); }

// Ranks that split what lies outside the tensor-parallel regions.
double hidden_shards(const Case& c) { return c.plan.sequence_parallel ? c.plan.tp : 1; }

// The activation formulas count 16-bit elements; fp32 and tf32 runs keep twice as much.
double precision_scale(const Case& c) { return element_bytes(c.train.precision) / 2.0; }

// Of an element of a linear layer's input, kept for the gradient of its weight.
double kept_input_bytes(const Case& c) {
  return c.train.precision == Precision::fp8 ? c.software.fp8_kept_input_bytes : 2;
}

// Linear layers whose input is kept: those with a weight gradient, their own or an adapter's. Counted as 0 or 1.
struct KeptInputs {
  double qkv = 1, mlp_in = 1, mlp_out = 1;  // the output projection's input is the attention's output, which is kept
};

KeptInputs kept_inputs(const Case& c) {
  const Peft& peft = c.train.peft;
  if (!peft.active() || (peft.format != nullptr && c.software.quantised_keeps_input)) return {};
  const Peft::Targets& t = peft.targets;
  return {t.q || t.k || t.v ? 1.0 : 0.0, t.gate || t.up ? 1.0 : 0.0, t.down ? 1.0 : 0.0};
}

// Adapters keep the narrow tensor between their factors, and their own copy of the input where they drop parts of it
// out (with a mask) or cast it.
double kept_by_adapters(const Case& c) {
  const Peft& peft = c.train.peft;
  if (!peft.active()) return 0;
  const double own_input = peft.dropout > 0 ? 3 : c.software.lora_adapter_bytes >= 4 && !c.software.lora_fused ? 2 : 0;
  double bytes = 0;
  for (const Projection& p : layer_adapters(c.model, peft, c.plan.tp, c.software.lora_merged_projections).all()) {
    bytes += 2.0 * static_cast<double>(peft.rank) + own_input * static_cast<double>(p.k);
  }
  return bytes;
}

// Of an MLP or a mixture of experts, per token; `per_element` of the MLP's width, `input` of a linear layer's input.
// Every copy of a token is kept as the experts' input, and (kept_copies) in the other orders it is brought into.
double kept_of_mlp(const Case& c, LayerKind kind, double per_element, double input) {
  const Model& m = c.model;
  if (!kind.experts) return per_element * static_cast<double>(m.ffn) / c.plan.tp;
  const double u = hidden_shards(c), copies = static_cast<double>(m.top_k) * c.plan.expert_imbalance / u;
  const double scores = 8.0 * static_cast<double>(m.experts) / u;
  const double experts = copies * (per_element * static_cast<double>(m.expert_ffn) +
                                   (input + 2 * (c.software.experts.kept_copies - 1)) * static_cast<double>(m.hidden));
  return scores + experts + per_element * static_cast<double>(m.shared_expert_ffn) / c.plan.tp;
}

// The tensors a full layer keeps, in bytes per token of a 16-bit run.
double kept_per_token(const Case& c, LayerKind kind, bool without_scores) {
  const Model& m = c.model;
  const Software& s = c.software;
  const double h = static_cast<double>(m.hidden), q = static_cast<double>(m.query_width());
  const double kv = static_cast<double>(std::max<std::int64_t>(m.kv_width(), m.head_dim * c.plan.tp));
  const double f = static_cast<double>(m.ffn), a = static_cast<double>(m.heads);
  const double tp = c.plan.tp, u = hidden_shards(c), input = kept_input_bytes(c);
  const bool gpt = m.family == Model::Family::gpt;
  // The inputs of the norms, and their outputs, which are the inputs of Q, K, V and of the MLP.
  const KeptInputs inputs = kept_inputs(c);
  double hidden = (gpt ? s.layernorm_kept_bytes : s.rmsnorm_kept_bytes) + (inputs.qkv + inputs.mlp_in) * input;
  if (gpt && s.dropout_masks) hidden += 2;
  double attention = 2 * (q + 2 * kv) + 2 * q + (gpt ? 0 : 4 * a);  // Q, K, V; output; log of the softmax sums
  const double mlp =
      (m.gated ? s.gated_kept_bytes : s.gelu_kept_bytes) + (s.keeps_activation_output ? inputs.mlp_out * input : 0);
  double latent = 0;
  if (m.mla) {
    const double v = static_cast<double>(m.value_width());
    attention = 2 * (q + q + v) + 2 * v + 4 * a;
    // Compressed queries and key-values before and after their norms.
    latent =
        (2 + input) * static_cast<double>(m.mla->q_lora + m.mla->kv_lora) + 2 * static_cast<double>(m.mla->qk_rope);
  }
  double bytes = hidden * h / u + (attention + mlp * f) / tp + kept_by_adapters(c);
  if (m.mla || kind.experts) bytes = hidden * h / u + latent / u + attention / tp + kept_of_mlp(c, kind, mlp, input);
  if (kind.predictor) bytes += 3 * input * h / u + 2 * h / u;  // both inputs' norms and the projection of them
  if (c.train.attention == AttentionKernel::standard && !without_scores) {
    // Scores, softmax and its dropout mask.
    bytes += 5 * a * static_cast<double>(c.train.seq_len) / tp;
  }
  return bytes;
}

// What the weight gradients of a layer are made of, in bytes per token: the inputs of its linear layers and the
// gradients of their outputs (16-bit).
double deferred_per_token(const Case& c, LayerKind kind) {
  const Model& m = c.model;
  const double h = static_cast<double>(m.hidden), q = static_cast<double>(m.query_width());
  const double kv = static_cast<double>(std::max<std::int64_t>(m.kv_width(), m.head_dim * c.plan.tp));
  const double f = static_cast<double>(m.ffn), input = kept_input_bytes(c);
  if (kind.experts) {
    const double copies = static_cast<double>(m.top_k) * c.plan.expert_imbalance / hidden_shards(c);
    const double shared = static_cast<double>(m.shared_expert_ffn), wide = m.gated ? 2 : 1;
    const auto expert = static_cast<double>(m.expert_ffn);
    const double mlp_inputs = copies * (h + expert) + h / hidden_shards(c) + shared / c.plan.tp;
    const double mlp_outputs = copies * (h + wide * expert) + h / hidden_shards(c) + wide * shared / c.plan.tp;
    return input * (h / hidden_shards(c) + q / c.plan.tp + mlp_inputs) +
           2 * (h / hidden_shards(c) + (q + 2 * kv) / c.plan.tp + mlp_outputs);
  }
  const double inputs = input * (2 * h / hidden_shards(c) + (q + f) / c.plan.tp);
  const double outputs = 2 * (2 * h / hidden_shards(c) + (q + 2 * kv + (m.gated ? 2 : 1) * f) / c.plan.tp);
  return inputs + outputs;
}

// What recompute of parts of a layer leaves of it, in bytes per token: its input and what is saved, or all but what the
// redone parts make. A module's output that the next one works on is kept as that one's input.
double kept_with_parts_redone(const Case& c) {
  const Model& m = c.model;
  const Software& s = c.software;
  const double h = static_cast<double>(m.hidden) / hidden_shards(c), tp = c.plan.tp;
  const double q = static_cast<double>(m.query_width()) / tp, f = static_cast<double>(m.ffn) / tp;
  const double kv = static_cast<double>(std::max<std::int64_t>(m.kv_width(), m.head_dim * c.plan.tp)) / tp;
  const double sums = m.family == Model::Family::gpt ? 0 : 4 * static_cast<double>(m.heads) / tp;
  const double input = kept_input_bytes(c), of_activation = m.gated ? 4 : 2;  // gate and up, or the input of GELU
  const RedoneParts redone = c.plan.recompute.redone(s);
  if (c.plan.recompute.mode == Recompute::Mode::saved) {
    // Its last product may be spared for other reasons.
    const std::vector<std::string>& names = c.plan.recompute.names;
    const bool saves_mlp = std::find(names.begin(), names.end(), "mlp") != names.end();
    return 2 * h + (redone.qkv ? 0 : 2 * (q + 2 * kv)) + (redone.core_attention ? 0 : 2 * q + sums) +
           (redone.attention_out ? 0 : 2 * h) + (redone.mlp_in ? 0 : of_activation * f) + (saves_mlp ? 2 * h : 0);
  }
  double bytes = kept_per_token(c, {}, redone.core_attention);
  const double kept_of_norms = m.family == Model::Family::gpt ? s.layernorm_kept_bytes : s.rmsnorm_kept_bytes;
  const double kept_of_mlp = m.gated ? s.gated_kept_bytes : s.gelu_kept_bytes;
  if (redone.norms) bytes -= (std::max(0.0, kept_of_norms - 4) + 2 * input) * h;
  if (redone.qkv) bytes -= 2 * (q + 2 * kv);
  if (redone.core_attention) bytes -= sums;
  if (redone.mlp_in) bytes -= std::min(kept_of_mlp, of_activation) * f;
  if (redone.activation) {
    bytes -= (std::max(0.0, kept_of_mlp - of_activation) + (s.keeps_activation_output ? input : 0)) * f;
  }
  return bytes;
}

double checkpoint_per_token(const Case& c) {
  const bool wide = c.train.peft.active() && c.plan.zero == 3;
  const double bytes = wide ? c.software.peft_zero3_checkpoint_bytes : 2.0;
  return bytes * static_cast<double>(c.model.hidden) / hidden_shards(c);
}

// Of a layer: 16-bit weights that autograd keeps from the product with quantised ones.
double kept_weights(const Case& c) {
  const WeightFormat* format = c.train.peft.format;
  if (format == nullptr || !format->kept_for_backward) return 0;
  double count = 0;
  for (const Projection& p : layer_projections(c.model, c.plan.tp).all()) {
    count += static_cast<double>(p.n) * static_cast<double>(p.k);
  }
  return count * element_bytes(c.train.precision);
}

double logits(const Case& c) {
  return tokens_of(c) * static_cast<double>(stored_vocabulary(c.model, c.plan.tp, c.software.pads_vocabulary)) /
         c.plan.tp;
}

double largest_matrix(const Model& m, double tp) {
  const auto rows = static_cast<double>(std::max({m.ffn, m.query_width(), m.vocab}));
  return rows * static_cast<double>(m.hidden) / tp;
}

// With ZeRO-3 a few blocks have whole weights at a time, and the block in the backward pass a whole gradient. Where
// single matrices are gathered, they run ahead by a number of parameters.
double gathered_bytes(const Case& c, const StageLayout& layout) {
  const bool fetched = c.plan.offload.params != Offload::Place::gpu;
  if ((c.plan.zero != 3 || c.plan.shard_ranks() == 1) && !fetched) return 0;
  const double element = element_bytes(c.train.precision);
  const WeightFormat* format = c.train.peft.format;
  std::vector<double> sizes;
  double largest_gradient = 0;
  for (const Chunk& chunk : layout.chunks) {
    for (const Block& block : chunk.blocks) {
      const double quantised = format == nullptr ? 0 : block.quantised * format->stored_bytes;
      sizes.push_back((block.parameters - block.quantised) * element + quantised);
      largest_gradient = std::max(largest_gradient, block.trained());
    }
  }
  if (sizes.empty()) return 0;
  std::sort(sizes.rbegin(), sizes.rend());
  const auto blocks = static_cast<std::size_t>(1 + (c.software.zero3_overlap ? c.software.zero3_prefetch_layers : 0));
  double whole = 0;
  for (std::size_t i = 0; i < std::min(blocks, sizes.size()); ++i) whole += sizes[i];
  if (c.software.zero3_max_live_parameters > 0) {
    const double largest = std::min(sizes.front(), largest_matrix(c.model, c.plan.tp) * element);
    whole = std::min(whole, std::max(largest, c.software.zero3_max_live_parameters * element));
    largest_gradient = std::min(largest_gradient, largest_matrix(c.model, c.plan.tp));
  }
  return whole + largest_gradient * c.software.gradient_bytes;
}

// Parameters of a stage by what becomes of them.
struct Held {
  double full = 0;                   // trained, as they are
  double experts = 0;                // likewise, but shared with other ranks
  double adapters = 0;               // trained beside frozen weights
  double frozen = 0, quantised = 0;  // the latter apart from the former

  double trained() const { return full + experts + adapters; }
};

Held held_by(const StageLayout& layout) {
  const double experts = layout.expert_parameters();
  if (layout.trained() == layout.parameters()) return {.full = layout.parameters() - experts, .experts = experts};
  Held held;
  for (const Chunk& chunk : layout.chunks) {
    for (const Block& block : chunk.blocks) {
      held.full += block.trained() - block.adapters;
      held.adapters += block.adapters;
      held.frozen += block.frozen - block.quantised;
      held.quantised += block.quantised;
    }
  }
  return held;
}

// Code that offloads is that of the stage asked for, even where one GPU shards nothing.
Software::StateBytes state_of(const Case& c) {
  return state_bytes(c.software, c.train, c.plan.offload.any() ? c.plan.offload.zero_stage : c.plan.zero);
}
Software::StateBytes adapter_state(const Case& c) { return c.software.state_adapter.value_or(state_of(c)); }

// Sharded. An fp32 run keeps its only gradients in 4 bytes.
double gradient_bytes_held(const Case& c, const Held& held) {
  const double shards = c.plan.zero >= 2 ? c.plan.shard_ranks() : 1;
  // Those that leave in the backward pass are here by the block.
  if (c.plan.offload.gradients != Offload::Place::gpu) return 0;
  const double expert_shards = c.plan.zero >= 2 ? c.plan.expert_shard_ranks() : 1;
  const double least = 2 * precision_scale(c), gradient = std::max(state_of(c).gradients, least);
  return (held.full * gradient + held.adapters * std::max(adapter_state(c).gradients, least)) / shards +
         held.experts * gradient / expert_shards;
}

// Weights that no optimizer updates: 16-bit, or quantised. ZeRO-3 shards both, but not the constants of the blocks
// (bitsandbytes keeps them beside the tensor).
double frozen_weights(const Case& c, const Held& held) {
  const double shards = c.plan.zero == 3 ? c.plan.shard_ranks() : 1;
  const WeightFormat* format = c.train.peft.format;
  const double rest = format == nullptr ? element_bytes(c.train.precision) : c.software.unquantised_bytes;
  const double weights = held.frozen * rest + held.quantised * (format == nullptr ? 0 : format->stored_bytes);
  return weights / shards + held.quantised * (format == nullptr ? 0 : format->constant_bytes);
}

// Weights of linear layers that fp8 runs keep as fp8 beside the 16-bit ones.
double fp8_copies(const Case& c, const StageLayout& layout) {
  if (c.train.precision != Precision::fp8 || c.plan.zero == 3) return 0;
  const Model& m = c.model;
  const auto dense = static_cast<double>(m.attention_matrix_parameters() + m.mlp_matrix_parameters());
  const auto rest = static_cast<double>(m.attention_matrix_parameters() + m.shared_expert_parameters());
  const double experts = static_cast<double>(m.experts * m.expert_matrix_parameters()) / (c.plan.ep * c.plan.etp);
  double matrices = 0;
  for (const Chunk& chunk : layout.chunks) {
    for (const Block& block : chunk.blocks) {
      if (block.kind != Block::Kind::layer) continue;
      matrices += block.layer.experts ? rest / c.plan.tp + experts : dense / c.plan.tp;
    }
  }
  return matrices * c.software.fp8_weight_copy_bytes;
}

double optimizer_extra_bytes(const Case& c, const Held& held) {
  const auto stepping = [&](double shard) {
    const bool in_groups = c.plan.zero == 3 && c.software.zero3_step_group_parameters > 0;
    return in_groups ? std::min(shard, c.software.zero3_step_group_parameters) : shard;
  };
  const double shards = c.plan.shard_ranks();
  return stepping(held.full / shards + held.experts / c.plan.expert_shard_ranks()) * state_of(c).step_extra +
         stepping(held.adapters / shards) * adapter_state(c).step_extra;
}

double communication_buffers(const Case& c, double parameters) {
  if (c.plan.data_ranks() == 1 && (c.model.experts == 0 || c.plan.expert_data_ranks() == 1)) return 0;
  if (c.software.bucket_copy_of_gradients && c.plan.zero == 0) {
    return parameters * std::max(c.software.gradient_bytes, state_of(c).gradients);
  }
  return std::min(c.software.communication_buffer_bytes, parameters * 4);
}

// The states of an embedding that are kept wider than those of other parameters.
double wide_table_states(const Case& c, const StageLayout& layout) {
  double tables = 0;
  for (const Chunk& chunk : layout.chunks) {
    for (const Block& block : chunk.blocks) {
      if (block.kind == Block::Kind::embedding) tables += block.trained();
    }
  }
  return tables * extra_table_state_bytes(c.train);
}

// Of all ranks that share it: fp32 weights and moments.
double optimizer_states(const Case& c, const StageLayout& layout) {
  const Held held = held_by(layout);
  const double state = state_of(c).optimizer;
  // In an fp32 run there is no master copy beside the weights.
  const double full = precision_scale(c) > 1 ? std::min(state, 8.0) : state;
  return held.full * full + held.adapters * adapter_state(c).optimizer + wide_table_states(c, layout);
}

// Of the layers a pass keeps, the share that stays on the GPU; two layers more are on their way.
Bytes kept_on_gpu(const Case& c, Bytes layer) { return layer * (1.0 - c.plan.offload.of_activations()); }
Bytes activation_copies(const Case& c, const StageLayout& layout) {
  Bytes largest;
  for (const Chunk& chunk : layout.chunks) {
    for (const Block& block : chunk.blocks) {
      if (block.kind != Block::Kind::layer) continue;
      largest = std::max(largest, kept_activations_of_layer(c, block.recomputed));
    }
  }
  return Bytes{std::round((2.0 * c.plan.offload.of_activations() * largest).value)};
}

// While the GPU steps through state that is on the host, two blocks of it are here.
double streamed_state_bytes(const Case& c, const StageLayout& layout) {
  const bool streamed =
      c.plan.offload.optimizer != Offload::Place::gpu && c.software.offload.adam == Software::Offload::Adam::gpu;
  if (!streamed) return 0;
  double blocks = 0;
  for (const Chunk& chunk : layout.chunks) blocks += static_cast<double>(chunk.blocks.size());
  return 2 * optimizer_states(c, layout) / std::max(1.0, blocks) / c.plan.shard_ranks();
}

MemoryParts static_parts(const Case& c, const StageLayout& layout) {
  const double n = layout.parameters();
  const Held held = held_by(layout);
  const double shards = c.plan.shard_ranks(), expert_shards = c.plan.expert_shard_ranks();
  const auto state = state_of(c), adapter = adapter_state(c);
  const double wide = precision_scale(c);  // an fp32 run keeps its only weights in 4 bytes
  // In an fp32 run there is no master copy beside the weights.
  const double optimizer = wide > 1 ? std::min(state.optimizer, 8.0) : state.optimizer;
  const double weight = std::max(state.weights, 2 * wide);
  MemoryParts parts;
  parts.weights = {(held.full * weight + held.adapters * adapter.weights) / (c.plan.zero == 3 ? shards : 1) +
                   held.experts * weight / (c.plan.zero == 3 ? expert_shards : 1)};
  if (held.trained() < n) parts.weights += Bytes{frozen_weights(c, held)};
  parts.optimizer = {optimizer_states(c, layout) / shards + held.experts * optimizer / expert_shards};
  parts.optimizer *= 1.0 - c.plan.offload.of_optimizer();
  if (c.plan.offload.params != Offload::Place::gpu) parts.weights = {};
  if (!c.software.gradients_on_demand) parts.gradients = {gradient_bytes_held(c, held)};
  if (c.plan.zero == 3 && c.plan.pp > 1) parts.weights += Bytes{n * c.software.zero3_pipeline_extra_bytes};
  parts.weights += Bytes{fp8_copies(c, layout)};
  parts.communication_buffers = {communication_buffers(c, held.trained())};
  parts.activations = activation_copies(c, layout);
  return parts;
}

// What makes 16-bit weights of quantised ones holds the largest matrix.
double dequantised_bytes(const Case& c) {
  if (c.train.peft.format == nullptr) return 0;
  double largest = 0;
  for (const Projection& p : layer_projections(c.model, c.plan.tp).all()) {
    largest = std::max(largest, static_cast<double>(p.n) * static_cast<double>(p.k));
  }
  return largest * element_bytes(c.train.precision);
}

Bytes whole(Bytes amount) { return {std::round(amount.value)}; }

// In whole bytes, so that what is taken and given back a thousand times leaves no rounding.
StageMemory::ChunkMemory chunk_memory(const Case& c, const Chunk& chunk) {
  StageMemory::ChunkMemory memory;
  Bytes redone;  // the largest layer that is recomputed
  for (const Block& block : chunk.blocks) {
    if (block.kind == Block::Kind::layer) {
      const Bytes layer = kept_activations_of_layer(c, block.recomputed, block.layer);
      memory.last_kept = kept_on_gpu(c, layer);
      memory.offloaded += layer - memory.last_kept;
      if (!block.recomputed) memory.last_kept += Bytes{kept_weights(c)};
      memory.kept += memory.last_kept;
      if (splits_backward(c.plan.schedule)) {
        memory.deferred += Bytes{deferred_per_token(c, block.layer) * tokens_of(c) * precision_scale(c)};
      }
    }
    if (block.recomputed) redone = std::max(redone, kept_activations_of_layer(c, false, block.layer));
  }
  // A layer's backward holds the gradients of what it kept; under recompute what it kept is made there first.
  const bool recomputes = redone.value > 0;
  memory.backward_working = redone * c.software.recompute_working_set;
  if (c.plan.recompute.of_parts() && chunk.layers() > 0) {
    const Bytes made_again = Bytes{kept_per_token(c, {}, false) * tokens_of(c) * precision_scale(c)} - memory.last_kept;
    memory.backward_working = made_again * c.software.recompute_working_set;
  }
  memory.backward_working += Bytes{recomputes ? std::max(kept_weights(c), dequantised_bytes(c)) : dequantised_bytes(c)};
  if (chunk.has(Block::Kind::head)) {
    const double live = c.software.loss_live_bytes_per_logit, heads = static_cast<double>(1 + c.model.mtp);
    memory.logits = {heads * logits(c) * live};
    memory.logits_kept = {heads * logits(c) * std::min(live, c.software.loss_kept_bytes_per_logit)};
    const Bytes input{2.0 * tokens_of(c) * static_cast<double>(c.model.hidden) / hidden_shards(c)};
    memory.kept += input;
    if (splits_backward(c.plan.schedule)) memory.deferred += input + Bytes{heads * logits(c) * std::min(2.0, live)};
  }
  return {.kept = whole(memory.kept),
          .last_kept = whole(memory.last_kept),
          .deferred = whole(memory.deferred),
          .gradients = {},
          .backward_working = whole(memory.backward_working),
          .logits = whole(memory.logits),
          .logits_kept = whole(memory.logits_kept),
          .offloaded = whole(memory.offloaded)};
}

// Gradients that come and go, chunk by chunk. The embedding's table counts once where the head shares it.
void split_gradients(const Case& c, const StageLayout& layout, StageMemory& stage) {
  if (!c.software.gradients_on_demand) return;
  const double all = gradient_bytes_held(c, held_by(layout));
  double sum = 0;
  std::vector<double> sizes;
  for (const Chunk& chunk : layout.chunks) {
    double size = 0;
    for (const Block& block : chunk.blocks) size += block.trained();
    sizes.push_back(size);
    sum += size;
  }
  for (std::size_t i = 0; i < sizes.size() && sum > 0; ++i) stage.chunks[i].gradients = whole({all * sizes[i] / sum});
}

}  // namespace

namespace {

template <class Visit>
void for_each_part(const MemoryParts& parts, const Visit& visit) {
  visit("weights", parts.weights);
  visit("gradients", parts.gradients);
  visit("optimizer", parts.optimizer);
  visit("gathered_parameters", parts.gathered_parameters);
  visit("communication_buffers", parts.communication_buffers);
  visit("activations", parts.activations);
  visit("working_set", parts.working_set);
  visit("logits", parts.logits);
  visit("optimizer_extra", parts.optimizer_extra);
}

}  // namespace

Bytes MemoryParts::total() const {
  Bytes sum;
  for_each_part(*this, [&sum](const char*, Bytes bytes) { sum += bytes; });
  return sum;
}

std::vector<std::pair<std::string, Bytes>> MemoryParts::named() const {
  std::vector<std::pair<std::string, Bytes>> named;
  for_each_part(*this, [&named](const char* name, Bytes bytes) { named.emplace_back(name, bytes); });
  return named;
}

double offloaded_weight_bytes(const Case& c, const Block& block) {
  if (c.train.precision == Precision::fp8 && c.software.fp8_weight_copy_bytes > 0) {
    return block.parameters * c.software.fp8_weight_copy_bytes;
  }
  const WeightFormat* format = c.train.peft.format;
  const double rest = format == nullptr ? element_bytes(c.train.precision) : c.software.unquantised_bytes;
  const double full = (block.trained() - block.adapters) * std::max(state_of(c).weights, 2 * precision_scale(c));
  return full + block.adapters * adapter_state(c).weights + (block.frozen - block.quantised) * rest +
         block.quantised * (format == nullptr ? 0 : format->stored_bytes);
}

double trained_weight_bytes(const Case& c) {
  if (c.train.precision == Precision::fp8 && c.software.fp8_weight_copy_bytes > 0)
    return c.software.fp8_weight_copy_bytes;
  return std::max(state_of(c).weights, 2 * precision_scale(c));
}

double host_state_bytes(const Case& c, const StageLayout& layout) {
  const double trained = layout.trained();
  return trained > 0 ? optimizer_states(c, layout) / trained : 0;
}

Bytes kept_activations_of_layer(const Case& c, bool recomputed, LayerKind kind) {
  const double scale = tokens_of(c) * precision_scale(c);
  if (recomputed) return {checkpoint_per_token(c) * scale};
  if (c.plan.recompute.of_parts()) return {kept_with_parts_redone(c) * scale};
  return {kept_per_token(c, kind, c.plan.recompute.of_attention_core(c.software)) * scale};
}

Bytes StageMemory::passing_gradients() const {
  Bytes sum;
  for (const ChunkMemory& chunk : chunks) sum += chunk.gradients;
  return sum;
}

std::vector<StageMemory> stage_memories(const Case& c, const std::vector<StageLayout>& layouts) {
  std::vector<StageMemory> stages;
  for (const StageLayout& layout : layouts) {
    StageMemory stage;
    stage.always = static_parts(c, layout);
    stage.gathered = {gathered_bytes(c, layout)};
    stage.optimizer_extra = {optimizer_extra_bytes(c, held_by(layout)) * (1.0 - c.plan.offload.of_optimizer()) +
                             streamed_state_bytes(c, layout)};
    for (const Chunk& chunk : layout.chunks) stage.chunks.push_back(chunk_memory(c, chunk));
    split_gradients(c, layout, stage);
    stages.push_back(std::move(stage));
  }
  return stages;
}

MemoryFigures figures(const Case& c, Bytes allocated, Bytes pooled) {
  return {.allocated = allocated,
          .reserved = pooled * c.software.reserved_over_allocated,
          .device = pooled * c.software.device_over_allocated + outside_the_allocator(c)};
}

Bytes with_fragments(const MemoryParts& parts, double fragmentation) {
  return parts.total() + (parts.activations + parts.working_set + parts.logits) * fragmentation;
}

Bytes outside_the_allocator(const Case& c) {
  const bool experts = c.model.experts > 0 && c.plan.ep > 1;
  const int communicators = (c.plan.tp > 1) + (c.plan.pp > 1) + (c.plan.dp > 1) + (c.plan.cp > 1) + experts;
  return Bytes{(c.software.context_gb + communicators * c.software.communicator_gb) * kGiga};
}

}  // namespace foretrain
