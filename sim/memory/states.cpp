#include "sim/memory/states.h"

#include <algorithm>
#include <vector>

#include "sim/memory/activations.h"
#include "sim/memory/ledger.h"
#include "sim/model/operators.h"

namespace foretrain {
namespace {

using Place = Offload::Place;

// Code that offloads is that of the stage asked for, even where one GPU shards nothing.
int state_stage(const Case& c) { return c.plan.offload.any() ? c.plan.offload.zero_stage : c.plan.zero; }

Software::StateBytes state_of(const Case& c) {
  Software::StateBytes state = state_bytes(c.software, c.train, state_stage(c));
  // In an fp32 run there is no master copy beside the weights.
  if (precision_scale(c) > 1) state.optimizer = std::min(state.optimizer, 8.0);
  state.weights = std::max(state.weights, 2 * precision_scale(c));
  state.gradients = std::max(state.gradients, 2 * precision_scale(c));
  return state;
}

Software::StateBytes adapter_state(const Case& c) {
  if (!c.software.state_adapter) return state_of(c);
  Software::StateBytes state = *c.software.state_adapter;
  state.gradients = std::max(state.gradients, 2 * precision_scale(c));
  return state;
}

using Field = double Software::StateBytes::*;

// Of the trained parameters, before sharding.
double trained_bytes(const Case& c, const Parameters& held, Field field) {
  return held.full * (state_of(c).*field) + held.adapters * (adapter_state(c).*field);
}

// The two kinds of parameters, each over its own ranks.
double over_ranks(const Case& c, double rest, double experts) {
  return rest / c.plan.shard_ranks() + experts / c.plan.expert_shard_ranks();
}

// Likewise from this ZeRO stage on; whole below it.
double over_ranks_from(const Case& c, int stage, double rest, double experts) {
  return c.plan.zero >= stage ? over_ranks(c, rest, experts) : rest + experts;
}

double unquantised_bytes(const Case& c) {
  return c.train.peft.format == nullptr ? element_bytes(c.train.precision) : c.software.unquantised_bytes;
}

// Weights that no optimizer updates: 16-bit, or quantised, without their constants.
double frozen_bytes(const Case& c, const Parameters& held) {
  const WeightFormat* format = c.train.peft.format;
  return held.frozen * unquantised_bytes(c) + (format == nullptr ? 0 : held.quantised * format->stored_bytes);
}

// Scales and zero points lie beside the tensor (bitsandbytes), where neither ZeRO-3 nor offload finds them.
double quantisation_constants(const Case& c, const StageLayout& layout) {
  const WeightFormat* format = c.train.peft.format;
  if (format == nullptr) return 0;
  return (layout.rest().quantised + layout.experts().quantised) * format->constant_bytes;
}

// Weights of linear layers of which a rank keeps fp8 copies.
double fp8_copied(const Case& c, const StageLayout& layout) {
  if (!has_fp8_copies(c) || c.plan.zero == 3) return 0;
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
  return matrices;
}

// The states of token table and head that are kept wider than those of other parameters.
double wide_table_states(const Case& c, const StageLayout& layout) {
  const TableStates extra = extra_table_states(c.software, c.train, state_stage(c));
  double bytes = 0;
  for (const Chunk& chunk : layout.chunks) {
    for (const Block& block : chunk.blocks) {
      if (block.kind == Block::Kind::embedding) bytes += block.trained() * extra.embedding;
      if (block.kind == Block::Kind::head) bytes += block.trained() * extra.head;
    }
  }
  return bytes;
}

// Before sharding, as they lie in host memory or on a drive.
double offloaded_bytes(const Case& c, const Parameters& held) {
  if (has_fp8_copies(c)) return held.total() * c.software.fp8_weight_copy_bytes;
  return trained_bytes(c, held, &Software::StateBytes::weights) + frozen_bytes(c, held);
}

// Of frozen weights in one flat tensor with adapters, of which autograd makes the gradient as a whole.
double frozen_gradient_bytes(const Case& c, const StageLayout& layout) {
  if (c.plan.zero != 3 || !c.software.zero3_gradients_of_frozen) return 0;
  double parameters = 0;
  for (const Chunk& chunk : layout.chunks) {
    for (const Block& block : chunk.blocks) parameters += block.rest.adapters > 0 ? block.rest.frozen : 0;
  }
  return parameters * element_bytes(c.train.precision);
}

double largest_matrix(const Model& m, double tp) {
  const auto rows = static_cast<double>(std::max({m.ffn, m.query_width(), m.vocab}));
  return rows * static_cast<double>(m.hidden) / tp;
}

}  // namespace

// Products need nothing else, so the 16-bit ones are sharded and offloaded with the optimizer's states.
bool has_fp8_copies(const Case& c) {
  return c.train.precision == Precision::fp8 && c.software.fp8_weight_copy_bytes > 0;
}

Bytes weight_bytes(const Case& c, const StageLayout& layout) {
  // ZeRO-3 over a pipeline keeps some of the stage's weights whole.
  const double whole = c.plan.zero == 3 && c.plan.pp > 1 ? c.software.zero3_pipeline_extra_bytes : 0;
  Bytes bytes{layout.parameters() * whole + quantisation_constants(c, layout)};
  if (!second_copy_on_host(c)) {
    for (const Chunk& chunk : layout.chunks) {
      for (const Block& block : chunk.blocks) bytes += Bytes{second_copy_bytes(c, block)};
    }
  }
  if (c.plan.offload.params != Place::gpu) return bytes;
  const double copied = fp8_copied(c, layout) * (c.software.fp8_weight_copy_bytes - state_of(c).weights);
  const auto of = [&](const Parameters& held) {
    return trained_bytes(c, held, &Software::StateBytes::weights) + frozen_bytes(c, held);
  };
  return bytes + Bytes{over_ranks_from(c, 3, of(layout.rest()), of(layout.experts())) + copied};
}

Bytes gradient_bytes_held(const Case& c, const StageLayout& layout) {
  if (c.plan.offload.gradients != Place::gpu || c.train.optimizer_in_backward) return {};
  const Field gradients = &Software::StateBytes::gradients;
  const double rest = trained_bytes(c, layout.rest(), gradients) + frozen_gradient_bytes(c, layout);
  const double experts = trained_bytes(c, layout.experts(), gradients);
  const bool accumulates_whole =
      c.plan.zero == 3 && c.software.zero3_accumulates_whole && micro_batches(c.plan, c.train) > 1;
  return {accumulates_whole ? rest + experts : over_ranks_from(c, 2, rest, experts)};
}

Bytes optimizer_state_bytes(const Case& c, const StageLayout& layout) {
  const Field optimizer = &Software::StateBytes::optimizer;
  const double masters = fp8_copied(c, layout) * state_of(c).weights / c.plan.shard_ranks();
  return Bytes{over_ranks(c, trained_bytes(c, layout.rest(), optimizer) + wide_table_states(c, layout),
                          trained_bytes(c, layout.experts(), optimizer)) +
               masters};
}

Bytes optimizer_extra_bytes(const Case& c, const StageLayout& layout) {
  const bool in_groups = c.plan.zero == 3 && c.software.zero3_step_group_parameters > 0;
  const auto stepping = [&](double Parameters::*kind, double bytes) {
    const double shard = over_ranks(c, layout.rest().*kind, layout.experts().*kind);
    return (in_groups ? std::min(shard, c.software.zero3_step_group_parameters) : shard) * bytes;
  };
  return {stepping(&Parameters::full, state_of(c).step_extra) +
          stepping(&Parameters::adapters, adapter_state(c).step_extra)};
}

Bytes communication_buffer_bytes(const Case& c, const StageLayout& layout) {
  if (c.plan.data_ranks() == 1 && (c.model.experts == 0 || c.plan.expert_data_ranks() == 1)) return {};
  if (c.software.bucket_copy_of_gradients && c.plan.zero == 0) {
    return {layout.trained() * std::max(c.software.gradient_bytes, state_of(c).gradients)};
  }
  return {std::min(c.software.communication_buffer_bytes, layout.trained() * 4)};
}

// Where single matrices are gathered, they run ahead by a number of parameters.
Bytes gathered_block_bytes(const Case& c, const StageLayout& layout) {
  const bool fetched = c.plan.offload.params != Place::gpu;
  if ((c.plan.zero != 3 || c.plan.shard_ranks() == 1) && !fetched) return {};
  const double element = element_bytes(c.train.precision);
  const WeightFormat* format = c.train.peft.format;
  const auto as_gathered = [&](const Parameters& held, Block::Kind kind) {
    if (fetched && has_fp8_copies(c)) return held.total() * c.software.fp8_weight_copy_bytes;
    const double quantised = format == nullptr ? 0 : held.quantised * format->stored_bytes;
    const double rest = held.total() - held.quantised;
    return gathered_weight_bytes(c.train, rest, kind == Block::Kind::layer ? rest : 0) + quantised;
  };
  std::vector<double> sizes;
  double largest_gradient = 0;
  for (const Chunk& chunk : layout.chunks) {
    for (const Block& block : chunk.blocks) {
      sizes.push_back(as_gathered(block.rest, block.kind) + as_gathered(block.experts, block.kind));
      largest_gradient = std::max(largest_gradient, block.trained());
    }
  }
  if (sizes.empty()) return {};
  std::sort(sizes.rbegin(), sizes.rend());
  const auto blocks = static_cast<std::size_t>(1 + (c.software.zero3_overlap ? c.software.zero3_prefetch_layers : 0));
  double whole = 0;
  for (std::size_t i = 0; i < std::min(blocks, sizes.size()); ++i) whole += sizes[i];
  if (c.software.zero3_max_live_parameters > 0) {
    const double largest = std::min(sizes.front(), largest_matrix(c.model, c.plan.tp) * element);
    whole = std::min(whole, std::max(largest, c.software.zero3_max_live_parameters * element));
    largest_gradient = std::min(largest_gradient, largest_matrix(c.model, c.plan.tp));
  }
  // Elsewhere there is a buffer for all gradients.
  const bool gradient_apart = (c.plan.zero == 3 && c.plan.shard_ranks() > 1) || c.plan.offload.gradients != Place::gpu;
  return {whole + (gradient_apart ? largest_gradient * c.software.gradient_bytes : 0)};
}

double offloaded_weight_bytes(const Case& c, const Block& block) {
  return over_ranks(c, offloaded_bytes(c, block.rest), offloaded_bytes(c, block.experts));
}

double whole_offloaded_weight_bytes(const Case& c, const Block& block) {
  return offloaded_bytes(c, block.rest) + offloaded_bytes(c, block.experts);
}

double second_copy_bytes(const Case& c, const Block& block) {
  return c.plan.zeropp.secondary ? block.parameters() * element_bytes(c.train.precision) / c.plan.zeropp.group : 0;
}

bool second_copy_on_host(const Case& c) { return c.plan.zeropp.secondary && c.plan.offload.params == Place::cpu; }

double trained_weight_bytes(const Case& c) {
  return has_fp8_copies(c) ? c.software.fp8_weight_copy_bytes : state_of(c).weights;
}

double host_state_bytes(const Case& c, const StageLayout& layout) {
  const double held = sharded_parameters(layout, c.plan);
  return held > 0 ? optimizer_state_bytes(c, layout).value / held : 0;
}

}  // namespace foretrain
