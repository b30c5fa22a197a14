#include "sim/plan/stage_layout.h"

#include <algorithm>
#include <utility>

#include "sim/model/operators.h"

namespace foretrain {
namespace {

double size(const Projection& p) { return static_cast<double>(p.n) * static_cast<double>(p.k); }

// The linear layers of attention and MLP, or shared experts, that one rank holds; without router and experts.
double matrices_on_rank(const Model& m, LayerKind kind, int tp) {
  const LayerProjections p = layer_projections(m, tp);
  double sum = size(p.qkv) + size(p.attention_out);
  if (m.mla) {
    for (const Projection& latent : latent_projections(m, tp).all()) sum += size(latent);
  }
  if (!kind.experts) return sum + size(p.mlp_in) + size(p.mlp_out);
  const ExpertProjections experts = expert_projections(m, tp, 1);
  return sum + size(experts.shared_in) + size(experts.shared_out);
}

// Matrices are split over the tensor-parallel ranks; norms are replicated.
double biases_and_norms_on_rank(const Model& m, int tp) {
  const double all_matrices = static_cast<double>(m.attention_matrix_parameters() + m.mlp_matrix_parameters());
  const double rest = static_cast<double>(m.layer_parameters()) - all_matrices;
  return rest / (m.family == Model::Family::gpt ? tp : 1);
}

// The projection of a prediction module's two inputs to one.
double prediction_input_on_rank(const Model& m, int tp) {
  return 2.0 * static_cast<double>(m.hidden) * static_cast<double>(m.hidden) / tp;
}

double experts_on_rank(const Model& m, const Plan& plan) {
  const ExpertProjections p = expert_projections(m, plan.tp, plan.etp);
  return static_cast<double>(m.experts) / plan.ep * (size(p.expert_in) + size(p.expert_out));
}

// Everything of a layer that one rank holds, with its experts apart.
Block layer_block(const Model& m, const Plan& plan, LayerKind kind, bool recomputed) {
  Block block{.kind = Block::Kind::layer, .recomputed = recomputed, .layer = kind};
  block.rest.full = matrices_on_rank(m, kind, plan.tp) + biases_and_norms_on_rank(m, plan.tp);
  if (kind.experts) {
    block.rest.full += size(expert_projections(m, plan.tp, plan.etp).router);
    (plan.experts_as_rest() ? block.rest : block.experts).full += experts_on_rank(m, plan);
  }
  if (kind.predictor) block.rest.full += prediction_input_on_rank(m, plan.tp);
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
      const double held = (experts ? block.experts : block.rest).trained();
      open.parameters += held;
      if (block.kind == Block::Kind::layer) open.of_layers += held;
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

// Whether a layer runs its forward again in the backward pass: the n-th of its stage, the m-th of that chunk of it.
bool is_recomputed(const Plan& plan, const Software& software, std::int64_t n, int chunk, std::int64_t m) {
  const Recompute& recompute = plan.recompute;
  switch (recompute.mode) {
    case Recompute::Mode::none:
    case Recompute::Mode::modules:  // part of every layer's backward pass
    case Recompute::Mode::saved:
      return false;
    case Recompute::Mode::full:
      return true;
    case Recompute::Mode::blocks:
      return m < recompute.blocks / plan.vpp + (chunk < recompute.blocks % plan.vpp ? 1 : 0);
    case Recompute::Mode::selective:
      return software.selective_is_every_other_layer && n % 2 == 0;
  }
  return false;
}

// The block with its weights frozen, or quantised in its matrices, and what is trained beside them: adapters, and
// copies of embedding and head (the originals stay: modules_to_save of Hugging Face PEFT).
void freeze(Block& block, const Model& m, const Plan& plan, const Software& software, const Peft& peft) {
  const bool in_full = (block.kind == Block::Kind::embedding && peft.full_embedding) ||
                       (block.kind == Block::Kind::head && peft.full_head);
  const auto freeze_all = [](Parameters& held) { held.frozen = std::exchange(held.full, 0.0); };
  const double weights = block.rest.full;
  freeze_all(block.rest);
  freeze_all(block.experts);
  if (in_full) block.rest.full = weights;
  const auto quantise = [&](Parameters& held, double matrices) {
    if (peft.format == nullptr) return;
    held.frozen -= matrices;
    held.quantised += matrices;
  };
  if (block.kind == Block::Kind::head && software.quantises_head) quantise(block.rest, block.rest.frozen);
  if (block.kind != Block::Kind::layer) return;

  const LayerAdapters adapters =
      layer_adapters(m, peft, block.layer, plan.tp, plan.etp, software.lora_merged_projections);
  block.rest.adapters += adapters.parameters(peft.rank);
  quantise(block.rest, matrices_on_rank(m, block.layer, plan.tp));
  if (block.layer.predictor) {
    quantise(block.rest, prediction_input_on_rank(m, plan.tp));
    // Its copy of the token table is trained with the table.
    const double table = weights - layer_block(m, plan, block.layer, block.recomputed).rest.full;
    if (peft.full_embedding) {
      block.rest.frozen -= table;
      block.rest.full += table;
    }
  }
  if (!block.layer.experts) return;
  Parameters& experts = plan.experts_as_rest() ? block.rest : block.experts;
  experts.adapters += static_cast<double>(m.experts) / plan.ep * adapters.parameters_of_expert(peft.rank);
  quantise(experts, experts_on_rank(m, plan));
}

}  // namespace

std::int64_t Chunk::layers() const {
  return std::count_if(blocks.begin(), blocks.end(), [](const Block& b) { return b.kind == Block::Kind::layer; });
}

bool Chunk::has(Block::Kind kind) const {
  return std::any_of(blocks.begin(), blocks.end(), [kind](const Block& b) { return b.kind == kind; });
}

Parameters& Parameters::operator+=(const Parameters& other) {
  full += other.full;
  adapters += other.adapters;
  frozen += other.frozen;
  quantised += other.quantised;
  return *this;
}

Parameters StageLayout::rest() const {
  Parameters sum;
  for (const Chunk& chunk : chunks) {
    for (const Block& block : chunk.blocks) sum += block.rest;
  }
  return sum;
}

Parameters StageLayout::experts() const {
  Parameters sum;
  for (const Chunk& chunk : chunks) {
    for (const Block& block : chunk.blocks) sum += block.experts;
  }
  return sum;
}

double sharded_parameters(const Block& block, const Plan& plan) {
  return block.rest.trained() / plan.shard_ranks() + block.experts.trained() / plan.expert_shard_ranks();
}

double sharded_parameters(const StageLayout& layout, const Plan& plan) {
  return layout.rest().trained() / plan.shard_ranks() + layout.experts().trained() / plan.expert_shard_ranks();
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
    std::int64_t of_stage = 0;  // index among the stage's layers
    for (int c = 0; c < plan.vpp; ++c) {
      const auto position = static_cast<std::size_t>(chunk_position(plan, {s, c}));
      Chunk chunk;
      if (position == 0) chunk.blocks.push_back({.kind = Block::Kind::embedding, .rest = {.full = table + positions}});
      for (std::int64_t l = 0; l < layers[position]; ++l, ++of_stage) {
        const bool recomputed = is_recomputed(plan, software, of_stage, c, l);
        chunk.blocks.push_back(layer_block(model, plan, model.layer_kind(first[position] + l), recomputed));
      }
      if (position + 1 == layers.size()) {
        // Prediction modules follow the layers, with a copy of the token table where the first stage is another.
        for (std::int64_t module = 0; module < model.mtp; ++module) {
          const bool recomputed = plan.recompute.mode == Recompute::Mode::full;
          Block predictor = layer_block(model, plan, model.predictor_kind(), recomputed);
          if (module == 0 && !ends_share_a_stage(plan)) predictor.rest.full += table;
          chunk.blocks.push_back(predictor);
        }
        const double head = shares_table ? 0.0 : table;
        chunk.blocks.push_back({.kind = Block::Kind::head, .rest = {.full = head + final_norm}});
      }
      if (peft.active()) {
        for (Block& block : chunk.blocks) freeze(block, model, plan, software, peft);
      }
      stage.chunks.push_back(std::move(chunk));
    }
  }
  return stages;
}

double gathered_weight_bytes(const Train& train, double parameters, double of_layers) {
  const double element = element_bytes(train.precision);
  return (parameters - of_layers) * element +
         of_layers * (train.fp8.gathers_parameters ? 1.0 + train.fp8.weight_scale_bytes() : element);
}

std::vector<GradientBucket> gradient_buckets(const StageLayout& stage, double gradient_bytes, double bucket_bytes) {
  std::vector<GradientBucket> buckets;
  add_buckets(buckets, stage, gradient_bytes, bucket_bytes, false);
  add_buckets(buckets, stage, gradient_bytes, bucket_bytes, true);
  return buckets;
}

}  // namespace foretrain
