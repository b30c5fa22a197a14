#include "sim/memory/ledger.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "sim/memory/activations.h"
#include "sim/memory/states.h"
#include "sim/model/operators.h"

namespace foretrain {
namespace {

Bytes whole(Bytes amount) { return {std::round(amount.value)}; }

Bytes kept_on_gpu(const Case& c, bool recomputed, LayerKind kind) {
  return kept_activations_of_layer(c, recomputed, kind) - offloaded_activations_of_layer(c, recomputed, kind);
}

// What layers hold for a micro-batch, made once for those that are alike.
class LayerMemories {
 public:
  struct Amounts {
    Bytes kept, offloaded;            // on the GPU and on the host
    Bytes dropped, made_again;        // by recompute, in the forward and the backward pass
    Bytes gradients, held_gradients;  // of activations
    Bytes deferred;                   // kept until the weight gradients
  };
  explicit LayerMemories(const Case& c) : case_(c) {}

  // `block` is a layer.
  const Amounts& of(const Block& block) {
    const auto kind = static_cast<std::size_t>(block.layer.index());
    std::optional<Amounts>& known = (block.recomputed ? recomputed_ : plain_)[kind];
    if (!known) known = amounts(block.recomputed, block.layer);
    return *known;
  }

 private:
  Amounts amounts(bool recomputed, LayerKind kind) const {
    const Case& c = case_;
    Amounts a;
    a.kept = kept_on_gpu(c, recomputed, kind);
    a.offloaded = offloaded_activations_of_layer(c, recomputed, kind);
    a.gradients = activation_gradients_of_layer(c, kind);
    if (recomputed) {
      a.dropped = dropped_activations_of_layer(c, kind);
      a.made_again = kept_activations_of_layer(c, false, kind);
      a.held_gradients = held_activation_gradients_of_layer(c);
    } else if (c.plan.recompute.of_parts()) {
      a.made_again = whole_activations_of_layer(c, kind) - kept_on_gpu(c, false, kind);
    }
    if (splits_backward(c.plan.schedule)) a.deferred = deferred_activations_of_layer(c, kind);
    return a;
  }

  const Case& case_;
  std::array<std::optional<Amounts>, LayerKind::kCount> plain_, recomputed_;
};

// Of the activations that leave, those of two layers are on their way.
Bytes activation_copies(const StageLayout& layout, LayerMemories& layers) {
  Bytes largest;
  for (const Chunk& chunk : layout.chunks) {
    for (const Block& block : chunk.blocks) {
      if (block.kind == Block::Kind::layer) largest = std::max(largest, layers.of(block).offloaded);
    }
  }
  return whole(2.0 * largest);
}

// While the GPU steps through state that is on the host, two blocks of it are here.
Bytes streamed_state(const Case& c, const StageLayout& layout) {
  const bool streamed =
      c.plan.offload.optimizer != Offload::Place::gpu && c.software.offload.adam == Software::Offload::Adam::gpu;
  if (!streamed) return {};
  double blocks = 0;
  for (const Chunk& chunk : layout.chunks) blocks += static_cast<double>(chunk.blocks.size());
  return 2.0 * optimizer_state_bytes(c, layout) / std::max(1.0, blocks);
}

// What is there always.
MemoryParts static_parts(const Case& c, const StageLayout& layout, LayerMemories& layers) {
  MemoryParts parts;
  parts.weights = weight_bytes(c, layout);
  parts.optimizer = optimizer_state_bytes(c, layout) * (1.0 - c.plan.offload.of_optimizer());
  parts.optimizer -= std::min(parts.optimizer, c.plan.offload.paged);
  if (!c.software.gradients_on_demand) parts.gradients = gradient_bytes_held(c, layout);
  parts.communication_buffers = communication_buffer_bytes(c, layout);
  parts.activations = activation_copies(layout, layers);
  return parts;
}

// What makes 16-bit weights of quantised ones holds the largest matrix.
Bytes dequantised_matrix(const Case& c) {
  if (c.train.peft.format == nullptr) return {};
  double largest = 0;
  for (const Projection& p : layer_projections(c.model, c.plan.tp).all()) {
    largest = std::max(largest, static_cast<double>(p.n) * static_cast<double>(p.k));
  }
  return {largest * element_bytes(c.train.precision)};
}

// The gradient of a block that is updated in the backward pass, and what its update adds.
Bytes update_in_backward(const Case& c, const Block& block) {
  if (!c.train.optimizer_in_backward) return {};
  Case apart = c;
  apart.train.optimizer_in_backward = false;
  const StageLayout alone{{Chunk{{block}}}};
  return gradient_bytes_held(apart, alone) + optimizer_extra_bytes(apart, alone);
}

// What the backward pass of the layers holds beside what they kept: of the layer in hand what recompute makes again and
// its gradients, 16-bit weights of quantised ones, and what an update adds there.
Bytes backward_working(const Case& c, const Chunk& chunk, LayerMemories& layers) {
  Bytes working, weights, updated, held;
  for (const Block& block : chunk.blocks) {
    updated = std::max(updated, update_in_backward(c, block));
    if (block.kind != Block::Kind::layer) continue;
    const LayerMemories::Amounts& layer = layers.of(block);
    if (block.recomputed) weights = std::max(weights, Bytes{kept_dequantised_weights(c, block)});
    held += layer.held_gradients;
    working = std::max(working, layer.made_again + layer.gradients);
  }
  return working + held + std::max(weights, dequantised_matrix(c)) + updated;
}

// In whole bytes, so that what is taken and given back a thousand times leaves no rounding.
StageMemory::ChunkMemory chunk_memory(const Case& c, const Chunk& chunk, LayerMemories& layers) {
  StageMemory::ChunkMemory memory;
  for (const Block& block : chunk.blocks) {
    if (block.kind != Block::Kind::layer) continue;
    const LayerMemories::Amounts& layer = layers.of(block);
    Bytes on_gpu = layer.kept;
    memory.offloaded += layer.offloaded;
    memory.dropped = std::max(memory.dropped, layer.dropped);
    if (!block.recomputed) on_gpu += Bytes{kept_dequantised_weights(c, block)};
    memory.last_kept = layer.held_gradients.value > 0 ? memory.last_kept + on_gpu : on_gpu;
    memory.kept += on_gpu;
    memory.deferred += layer.deferred;
  }
  memory.backward_working = backward_working(c, chunk, layers);
  if (chunk.has(Block::Kind::head)) {
    const LogitMemory logits = logit_memory(c);
    memory.logits = logits.live;
    memory.logits_kept = logits.kept;
    // The head's input, or the gradient of it where the loss makes that in the forward pass.
    const Bytes input{2.0 * tokens_of(c) * static_cast<double>(c.model.hidden) / hidden_shards(c)};
    memory.kept += input;
    if (splits_backward(c.plan.schedule) && c.train.loss.kind != Loss::Kind::chunked)
      memory.deferred += input + logits.deferred;
  }
  return {.kept = whole(memory.kept),
          .last_kept = whole(memory.last_kept),
          .deferred = whole(memory.deferred),
          .gradients = {},
          .dropped = whole(memory.dropped),
          .backward_working = whole(memory.backward_working),
          .logits = whole(memory.logits),
          .logits_kept = whole(memory.logits_kept),
          .offloaded = whole(memory.offloaded)};
}

// Gradients that come and go, chunk by chunk. The embedding's table counts once where the head shares it.
void split_gradients(const Case& c, const StageLayout& layout, StageMemory& stage) {
  if (!c.software.gradients_on_demand) return;
  const Bytes all = gradient_bytes_held(c, layout);
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

Bytes StageMemory::passing_gradients() const {
  Bytes sum;
  for (const ChunkMemory& chunk : chunks) sum += chunk.gradients;
  return sum;
}

std::vector<StageMemory> stage_memories(const Case& c, const std::vector<StageLayout>& layouts) {
  std::vector<StageMemory> stages;
  LayerMemories layers(c);
  for (const StageLayout& layout : layouts) {
    StageMemory stage;
    stage.always = static_parts(c, layout, layers);
    stage.gathered = gathered_block_bytes(c, layout);
    if (!c.train.optimizer_in_backward) {
      stage.optimizer_extra =
          optimizer_extra_bytes(c, layout) * (1.0 - c.plan.offload.of_optimizer()) + streamed_state(c, layout);
    }
    for (const Chunk& chunk : layout.chunks) stage.chunks.push_back(chunk_memory(c, chunk, layers));
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
