#include "sim/memory/ledger.h"

#include <algorithm>

#include "sim/model/operators.h"

namespace foretrain {
namespace {

// Of a micro-batch, on one rank.
double tokens_of(const Case& c) { return static_cast<double>(c.plan.micro_batch * c.train.seq_len / c.plan.cp); }

// Ranks that split what lies outside the tensor-parallel regions.
double hidden_shards(const Case& c) { return c.plan.sequence_parallel ? c.plan.tp : 1; }

// The activation formulas count 16-bit elements; fp32 and tf32 runs keep twice as much.
double precision_scale(const Case& c) { return element_bytes(c.train.precision) / 2.0; }

// The tensors a full layer keeps, in bytes per token of a 16-bit run.
double kept_per_token(const Case& c, bool without_scores) {
  const Model& m = c.model;
  const double h = static_cast<double>(m.hidden), q = static_cast<double>(m.query_width());
  const double kv = static_cast<double>(std::max<std::int64_t>(m.kv_width(), m.head_dim * c.plan.tp));
  const double f = static_cast<double>(m.ffn), a = static_cast<double>(m.heads);
  const double tp = c.plan.tp, u = hidden_shards(c);
  // Q, K, V; the attention's output; the MLP's input to and output of its activation (gate, up and product if gated).
  const double split = 2 * (q + 2 * kv) + 2 * q + (m.gated ? 6 : 4) * f;
  const bool unfused = c.software.keeps_unfused_activations;
  double bytes = 0;
  if (m.family == Model::Family::gpt) {
    // Two norm inputs, two projection inputs, two 1-byte dropout masks.
    bytes = 10 * h / u + split / tp;
  } else {
    bytes = (unfused ? 16 : 8) * h / u + split / tp + 4 * a / tp;
    if (unfused) bytes += (2 * (q + kv) + 8 * f) / tp;
  }
  if (c.train.attention == AttentionKernel::standard && !without_scores) {
    // Scores, softmax and its dropout mask.
    bytes += 5 * a * static_cast<double>(c.train.seq_len) / tp;
  }
  return bytes;
}

double checkpoint_per_token(const Case& c) { return 2.0 * static_cast<double>(c.model.hidden) / hidden_shards(c); }

double logits_bytes(const Case& c) {
  const double vocabulary =
      static_cast<double>(stored_vocabulary(c.model, c.plan.tp, c.software.pads_vocabulary)) / c.plan.tp;
  return tokens_of(c) * vocabulary * c.software.loss_live_bytes_per_logit;
}

// With ZeRO-3 a few blocks have whole weights at a time, and the block in the backward pass a whole gradient.
double gathered_bytes(const Case& c, const StageLayout& layout) {
  if (c.plan.zero != 3 || c.plan.shard_ranks() == 1) return 0;
  std::vector<double> sizes;
  for (const Chunk& chunk : layout.chunks) {
    for (const Block& block : chunk.blocks) sizes.push_back(block.parameters);
  }
  std::sort(sizes.rbegin(), sizes.rend());
  const auto whole = static_cast<std::size_t>(1 + (c.software.zero3_overlap ? c.software.zero3_prefetch_layers : 0));
  double bytes = 0;
  for (std::size_t i = 0; i < std::min(whole, sizes.size()); ++i) bytes += sizes[i] * element_bytes(c.train.precision);
  return bytes + (sizes.empty() ? 0 : sizes.front() * c.software.gradient_bytes);
}

MemoryParts static_parts(const Case& c, const StageLayout& layout) {
  const double n = layout.parameters();
  const double shards = c.plan.shard_ranks();
  const auto state = c.software.state_bytes(c.plan.zero, c.train.precision == Precision::bf16);
  const double wide = precision_scale(c);  // an fp32 run keeps its only weights and gradients in 4 bytes
  const double weights = c.plan.zero == 3 ? shards : 1, gradients = c.plan.zero >= 2 ? shards : 1;
  const double optimizer = c.train.optimizer == Optimizer::sgd ? state.optimizer - 8 : state.optimizer;
  MemoryParts parts;
  parts.weights = {n * std::max(state.weights, 2 * wide) / weights};
  parts.gradients = {n * std::max(state.gradients, 2 * wide) / gradients};
  // In an fp32 run there is no master copy beside the weights.
  parts.optimizer = {n * std::max(0.0, wide > 1 ? std::min(optimizer, 8.0) : optimizer) / shards};
  if (c.plan.zero == 3 && c.plan.pp > 1) parts.weights += Bytes{n * c.software.zero3_pipeline_extra_bytes};
  parts.gathered_parameters = {gathered_bytes(c, layout)};
  if (c.plan.data_ranks() > 1) parts.communication_buffers = {std::min(c.software.communication_buffer_bytes, n * 4)};
  return parts;
}

}  // namespace

Bytes MemoryParts::total() const {
  Bytes sum;
  for (const auto& [name, bytes] : named()) sum += bytes;
  return sum;
}

std::vector<std::pair<std::string, Bytes>> MemoryParts::named() const {
  return {{"weights", weights},
          {"gradients", gradients},
          {"optimizer", optimizer},
          {"gathered_parameters", gathered_parameters},
          {"communication_buffers", communication_buffers},
          {"activations", activations},
          {"working_set", working_set},
          {"logits", logits},
          {"optimizer_extra", optimizer_extra}};
}

Bytes kept_activations_of_layer(const Case& c, bool recomputed) {
  const double scale = tokens_of(c) * precision_scale(c);
  if (recomputed) return {checkpoint_per_token(c) * scale};
  return {kept_per_token(c, c.plan.recompute.of_attention_core(c.software)) * scale};
}

std::vector<StageMemory> stage_memories(const Case& c, const std::vector<StageLayout>& layouts) {
  std::vector<StageMemory> stages;
  for (const StageLayout& layout : layouts) {
    StageMemory stage;
    stage.always = static_parts(c, layout);
    const auto state = c.software.state_bytes(c.plan.zero, c.train.precision == Precision::bf16);
    stage.optimizer_extra = {layout.parameters() * state.step_extra / c.plan.shard_ranks()};
    for (const Chunk& chunk : layout.chunks) {
      StageMemory::ChunkMemory memory;
      bool recomputes = false;
      for (const Block& block : chunk.blocks) {
        if (block.kind == Block::Kind::layer) memory.kept += kept_activations_of_layer(c, block.recomputed);
        recomputes = recomputes || block.recomputed;
      }
      const Bytes layer = kept_activations_of_layer(c, false);
      // A layer's backward holds the gradients of what it kept; under recompute what it kept is made there first.
      if (recomputes) memory.backward_working = layer * c.software.recompute_working_set;
      if (chunk.has(Block::Kind::head)) {
        memory.logits = {logits_bytes(c)};
        memory.kept += Bytes{2.0 * tokens_of(c) * static_cast<double>(c.model.hidden) / hidden_shards(c)};
      }
      stage.chunks.push_back(memory);
    }
    stages.push_back(std::move(stage));
  }
  return stages;
}

MemoryFigures figures(const Case& c, Bytes allocated) {
  const double communicators = c.plan.gpus() > 1 ? c.software.communicator_gb : 0;
  return {.allocated = allocated,
          .reserved = allocated * c.software.reserved_over_allocated,
          .device = allocated * c.software.device_over_allocated +
                    Bytes{(c.software.context_gb + communicators) * kGiga}};
}

Bytes needed_on_device(const Case& c, Bytes allocated) {
  const double communicators = c.plan.gpus() > 1 ? c.software.communicator_gb : 0;
  return allocated + Bytes{(c.software.context_gb + communicators) * kGiga};
}

}  // namespace foretrain
