#include <algorithm>

#include "sim/plan/plan.h"

// How the chunks of a model are dealt out to pipeline stages.

namespace foretrain {

bool splits_backward(PipelineSchedule schedule) { return schedule >= PipelineSchedule::zero_bubble; }

bool is_zero_bubble(PipelineSchedule schedule) {
  return schedule == PipelineSchedule::zero_bubble || schedule == PipelineSchedule::zero_bubble_2p ||
         schedule == PipelineSchedule::zero_bubble_v;
}

bool goes_there_and_back(PipelineSchedule schedule) {
  return schedule == PipelineSchedule::zero_bubble_v || schedule == PipelineSchedule::dualpipe ||
         schedule == PipelineSchedule::dualpipe_v;
}

bool feeds_schedule(const Plan& plan, std::int64_t micro_batches) {
  if (plan.schedule == PipelineSchedule::dualpipe) return micro_batches >= 2 * plan.pp && micro_batches % 2 == 0;
  return plan.schedule != PipelineSchedule::dualpipe_v || micro_batches >= 2 * plan.pp;
}

namespace {

// Spreads the layers over the chunks where the last one gets `tail` fewer, and the first `head` fewer.
std::vector<std::int64_t> spread(std::int64_t layers, std::size_t chunks, std::int64_t head, std::int64_t tail) {
  const auto count = static_cast<std::int64_t>(chunks);
  const std::int64_t to_spread = layers + head + tail, fewest = to_spread / count;
  const auto missing = static_cast<std::size_t>((count - to_spread % count) % count);
  std::vector<std::int64_t> of_chunks(chunks, missing == 0 ? fewest : fewest + 1);
  for (std::size_t i = 0; i < missing; ++i) of_chunks[i % 2 == 0 ? chunks - 1 - i / 2 : i / 2] = fewest;
  of_chunks.back() -= tail;
  of_chunks.front() -= head;
  return of_chunks;
}

}  // namespace

std::vector<std::int64_t> layers_of_chunks(const Plan& plan, const Model& model) {
  if (!plan.layers.empty()) return plan.layers;
  const auto chunks = static_cast<std::size_t>(plan.model_chunks());
  const std::int64_t head = plan.ends_as_layers > 1 ? 1 : 0;
  std::int64_t tail = plan.ends_as_layers > 0 ? 1 : 0;
  // A prediction module is a layer and a loss of its own, which recipes of DeepSeek-V3 count as one each, and then the
  // model's own loss too: 61 layers over 16 chunks are 4 each and 1 in the last.
  if (model.mtp > 0) tail = 1 + 2 * model.mtp;
  std::vector<std::int64_t> layers = spread(model.layers, chunks, head, tail);
  while (layers.back() < 0) layers = spread(model.layers, chunks, head, --tail);
  return layers;
}

int chunk_position(const Plan& plan, ChunkPlace place) {
  if (!goes_there_and_back(plan.schedule)) return place.chunk * plan.pp + place.stage;
  return place.chunk == 0 ? place.stage : plan.model_chunks() - 1 - place.stage;
}

std::optional<ChunkPlace> next_chunk(const Plan& plan, ChunkPlace place) {
  const auto [stage, chunk] = place;
  if (!goes_there_and_back(plan.schedule)) {
    if (stage + 1 < plan.pp) return ChunkPlace{stage + 1, chunk};
    return chunk + 1 < plan.vpp ? std::optional(ChunkPlace{0, chunk + 1}) : std::nullopt;
  }
  if (chunk == 1) return stage > 0 ? std::optional(ChunkPlace{stage - 1, 1}) : std::nullopt;
  if (stage + 1 < plan.pp) return ChunkPlace{stage + 1, 0};
  return plan.schedule == PipelineSchedule::dualpipe ? std::nullopt : std::optional(ChunkPlace{stage, 1});
}

std::optional<ChunkPlace> previous_chunk(const Plan& plan, ChunkPlace place) {
  const auto [stage, chunk] = place;
  if (!goes_there_and_back(plan.schedule)) {
    if (stage > 0) return ChunkPlace{stage - 1, chunk};
    return chunk > 0 ? std::optional(ChunkPlace{plan.pp - 1, chunk - 1}) : std::nullopt;
  }
  if (chunk == 0) return stage > 0 ? std::optional(ChunkPlace{stage - 1, 0}) : std::nullopt;
  if (stage + 1 < plan.pp) return ChunkPlace{stage + 1, 1};
  return plan.schedule == PipelineSchedule::dualpipe ? std::nullopt : std::optional(ChunkPlace{stage, 0});
}

bool ends_share_a_stage(const Plan& plan) { return plan.pp == 1 || goes_there_and_back(plan.schedule); }

}  // namespace foretrain
