#include "sim/plan/stage_layout.h"

#include <algorithm>

#include "sim/model/operators.h"

namespace foretrain {
namespace {

// Matrices are split over the tensor-parallel ranks; norms are replicated.
double layer_parameters_on_rank(const Model& m, int tp) {
  double matrices = 0;
  for (const Projection& p : layer_projections(m, tp).all())
    matrices += static_cast<double>(p.n) * static_cast<double>(p.k);
  const double all_matrices = static_cast<double>(m.attention_matrix_parameters() + m.mlp_matrix_parameters());
  const double biases_and_norms = static_cast<double>(m.layer_parameters()) - all_matrices;
  return matrices + biases_and_norms / (m.family == Model::Family::gpt ? tp : 1);
}

// Whether the n-th layer of a stage runs its forward again in the backward pass.
bool is_recomputed(const Recompute& recompute, const Software& software, std::int64_t n) {
  switch (recompute.mode) {
    case Recompute::Mode::none:
    case Recompute::Mode::modules:  // part of every layer's backward pass
    case Recompute::Mode::saved:
      return false;
    case Recompute::Mode::full:
      return true;
    case Recompute::Mode::blocks:
      return n < recompute.blocks;
    case Recompute::Mode::selective:
      return software.selective_is_every_other_layer && n % 2 == 0;
  }
  return false;
}

// Freezes what the chunk's blocks hold so far and adds what is trained beside it: adapters, and copies of embedding and
// head (the originals stay: modules_to_save of Hugging Face PEFT).
void freeze(Chunk& chunk, const Model& m, const Plan& plan, const Software& software, const Peft& peft) {
  const double adapters = layer_adapters(m, peft, plan.tp, software.lora_merged_projections).parameters(peft.rank);
  double matrices = 0;
  for (const Projection& p : layer_projections(m, plan.tp).all()) {
    matrices += static_cast<double>(p.n) * static_cast<double>(p.k);
  }
  for (Block& block : chunk.blocks) {
    block.frozen = block.parameters;
    const bool full = (block.kind == Block::Kind::embedding && peft.full_embedding) ||
                      (block.kind == Block::Kind::head && peft.full_head);
    if (full) block.parameters *= 2;
    if (block.kind == Block::Kind::layer) {
      block.adapters = adapters;
      block.parameters += adapters;
      if (peft.format != nullptr) block.quantised = matrices;
    } else if (block.kind == Block::Kind::head && peft.format != nullptr && software.quantises_head) {
      block.quantised = block.frozen;
    }
  }
}

}  // namespace

std::int64_t Chunk::layers() const {
  return std::count_if(blocks.begin(), blocks.end(), [](const Block& b) { return b.kind == Block::Kind::layer; });
}

bool Chunk::has(Block::Kind kind) const {
  return std::any_of(blocks.begin(), blocks.end(), [kind](const Block& b) { return b.kind == kind; });
}

double StageLayout::parameters() const {
  double sum = 0;
  for (const Chunk& chunk : chunks) {
    for (const Block& block : chunk.blocks) sum += block.parameters;
  }
  return sum;
}

double StageLayout::trained() const {
  double sum = 0;
  for (const Chunk& chunk : chunks) {
    for (const Block& block : chunk.blocks) sum += block.trained();
  }
  return sum;
}

std::vector<StageLayout> stage_layouts(const Model& model, const Plan& plan, const Software& software,
                                       const Peft& peft) {
  const std::vector<std::int64_t> layers = layers_of_chunks(plan, model);
  const double vocabulary = static_cast<double>(stored_vocabulary(model, plan.tp, software.pads_vocabulary)) / plan.tp;
  const double table = vocabulary * static_cast<double>(model.hidden);
  const double positions = static_cast<double>(model.max_positions * model.hidden);
  const bool shares_table = model.tied_embeddings && ends_share_a_stage(plan);
  const double final_norm = static_cast<double>(model.final_norm_parameters());
  const double layer = layer_parameters_on_rank(model, plan.tp);

  std::vector<StageLayout> stages(static_cast<std::size_t>(plan.pp));
  for (int s = 0; s < plan.pp; ++s) {
    StageLayout& stage = stages[static_cast<std::size_t>(s)];
    std::int64_t of_stage = 0;  // index among the stage's layers: recompute {blocks: N} takes the first N
    for (int c = 0; c < plan.vpp; ++c) {
      const auto position = static_cast<std::size_t>(chunk_position(plan, {s, c}));
      Chunk chunk;
      if (position == 0) chunk.blocks.push_back({Block::Kind::embedding, table + positions, false});
      for (std::int64_t l = 0; l < layers[position]; ++l, ++of_stage) {
        const bool recomputed = is_recomputed(plan.recompute, software, of_stage);
        chunk.blocks.push_back({Block::Kind::layer, layer, recomputed});
      }
      if (position + 1 == layers.size()) {
        chunk.blocks.push_back({Block::Kind::head, (shares_table ? 0.0 : table) + final_norm, false});
      }
      if (peft.active()) freeze(chunk, model, plan, software, peft);
      stage.chunks.push_back(std::move(chunk));
    }
  }
  return stages;
}

std::vector<GradientBucket> gradient_buckets(const StageLayout& stage, double gradient_bytes, double bucket_bytes) {
  std::vector<GradientBucket> buckets;
  GradientBucket open;
  for (int chunk = static_cast<int>(stage.chunks.size()) - 1; chunk >= 0; --chunk) {
    const std::vector<Block>& blocks = stage.chunks[static_cast<std::size_t>(chunk)].blocks;
    for (int block = static_cast<int>(blocks.size()) - 1; block >= 0; --block) {
      open.parameters += blocks[static_cast<std::size_t>(block)].trained();
      open.chunk = chunk;
      open.block = block;
      const bool last = chunk == 0 && block == 0;
      if (open.parameters > 0 && (last || open.parameters * gradient_bytes >= bucket_bytes)) {
        buckets.push_back(open);
        open = {};
      }
    }
  }
  // A last block without parameters of its own leaves the open bucket's contents to its place.
  if (open.parameters > 0) buckets.push_back(open);
  return buckets;
}

}  // namespace foretrain
