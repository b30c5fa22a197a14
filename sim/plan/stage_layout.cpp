#include "sim/plan/stage_layout.h"

#include <algorithm>

#include "sim/model/operators.h"

namespace foretrain {
namespace {

double size(const Projection& p) { return static_cast<double>(p.n) * static_cast<double>(p.k); }

// Matrices are split over the tensor-parallel ranks; norms are replicated.
double dense_layer_parameters_on_rank(const Model& m, int tp) {
  double matrices = 0;
  for (const Projection& p : layer_projections(m, tp).all()) matrices += size(p);
  const double all_matrices = static_cast<double>(m.attention_matrix_parameters() + m.mlp_matrix_parameters());
  const double biases_and_norms = static_cast<double>(m.layer_parameters()) - all_matrices;
  if (m.mla) {
    for (const Projection& p : latent_projections(m, tp).all()) matrices += size(p);
  }
  return matrices + biases_and_norms / (m.family == Model::Family::gpt ? tp : 1);
}

// Everything of a layer that one rank holds, with its experts apart.
Block layer_block(const Model& m, const Plan& plan, LayerKind kind, bool recomputed) {
  Block block{.kind = Block::Kind::layer,
              .parameters = dense_layer_parameters_on_rank(m, plan.tp),
              .recomputed = recomputed,
              .layer = kind};
  if (kind.experts) {
    const LayerProjections dense = layer_projections(m, plan.tp);
    const ExpertProjections p = expert_projections(m, plan.tp, plan.etp);
    block.parameters +=
        size(p.router) + size(p.shared_in) + size(p.shared_out) - size(dense.mlp_in) - size(dense.mlp_out);
    const double experts = static_cast<double>(m.experts) / plan.ep * (size(p.expert_in) + size(p.expert_out));
    block.parameters += experts;
    if (!plan.experts_as_rest()) block.expert_parameters = experts;
  }
  if (kind.predictor) block.parameters += 2.0 * static_cast<double>(m.hidden) * static_cast<double>(m.hidden) / plan.tp;
  return block;
}

// Closes buckets over one of the two kinds of parameters.
void add_buckets(std::vector<GradientBucket>& buckets, const StageLayout& stage, double gradient_bytes,
                 double bucket_bytes, bool experts) {
  GradientBucket open{.experts = experts};
  for (int chunk = static_cast<int>(stage.chunks.size()) - 1; chunk >= 0; --chunk) {
    const std::vector<Block>& blocks = stage.chunks[static_cast<std::size_t>(chunk)].blocks;
    for (int index = static_cast<int>(blocks.size()) - 1; index >= 0; --index) {
      const Block& block = blocks[static_cast<std::size_t>(index)];
      open.parameters += experts ? block.expert_parameters : block.trained() - block.expert_parameters;
      open.chunk = chunk;
      open.block = index;
      const bool last = chunk == 0 && index == 0;
      if (open.parameters > 0 && (last || open.parameters * gradient_bytes >= bucket_bytes)) {
        buckets.push_back(open);
        open = {.experts = experts};
      }
    }
  }
  // A last block without parameters of its own leaves the open bucket's contents to its place.
  if (open.parameters > 0) buckets.push_back(open);
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

double StageLayout::expert_parameters() const {
  double sum = 0;
  for (const Chunk& chunk : chunks) {
    for (const Block& block : chunk.blocks) sum += block.expert_parameters;
  }
  return sum;
}

double sharded_parameters(const StageLayout& layout, const Plan& plan) {
  const double experts = layout.expert_parameters();
  return (layout.trained() - experts) / plan.shard_ranks() + experts / plan.expert_shard_ranks();
}

std::vector<StageLayout> stage_layouts(const Model& model, const Plan& plan, const Software& software,
                                       const Peft& peft) {
  const std::vector<std::int64_t> layers = layers_of_chunks(plan, model);
  const double vocabulary = static_cast<double>(stored_vocabulary(model, plan.tp, software.pads_vocabulary)) / plan.tp;
  const double table = vocabulary * static_cast<double>(model.hidden);
  const double positions = static_cast<double>(model.max_positions * model.hidden);
  const bool shares_table = model.tied_embeddings && ends_share_a_stage(plan);
  const double final_norm = static_cast<double>(model.final_norm_parameters());

  std::vector<StageLayout> stages(static_cast<std::size_t>(plan.pp));
  // First layer of each chunk, in the order a token meets them.
  std::vector<std::int64_t> first(layers.size(), 0);
  for (std::size_t position = 1; position < layers.size(); ++position)
    first[position] = first[position - 1] + layers[position - 1];
  for (int s = 0; s < plan.pp; ++s) {
    StageLayout& stage = stages[static_cast<std::size_t>(s)];
    std::int64_t of_stage = 0;  // index among the stage's layers: recompute {blocks: N} takes the first N
    for (int c = 0; c < plan.vpp; ++c) {
      const auto position = static_cast<std::size_t>(chunk_position(plan, {s, c}));
      Chunk chunk;
      if (position == 0) chunk.blocks.push_back({Block::Kind::embedding, table + positions, false});
      for (std::int64_t l = 0; l < layers[position]; ++l, ++of_stage) {
        const bool recomputed = is_recomputed(plan.recompute, software, of_stage);
        chunk.blocks.push_back(layer_block(model, plan, model.layer_kind(first[position] + l), recomputed));
      }
      if (position + 1 == layers.size()) {
        // Prediction modules follow the layers, with a copy of the token table where the first stage is another.
        for (std::int64_t module = 0; module < model.mtp; ++module) {
          const bool recomputed = plan.recompute.mode == Recompute::Mode::full;
          Block predictor = layer_block(model, plan, model.predictor_kind(), recomputed);
          if (module == 0 && !ends_share_a_stage(plan)) predictor.parameters += table;
          chunk.blocks.push_back(predictor);
        }
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
  add_buckets(buckets, stage, gradient_bytes, bucket_bytes, false);
  add_buckets(buckets, stage, gradient_bytes, bucket_bytes, true);
  return buckets;
}

}  // namespace foretrain
