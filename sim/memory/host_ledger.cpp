#include "sim/memory/host_ledger.h"

#include <algorithm>
#include <cmath>

namespace foretrain {
namespace {

using Place = Offload::Place;

// Of offload_param: buffer_count buffers of buffer_size elements (DeepSpeed's documentation of its configuration).
constexpr double kParameterBuffers = 5, kParameterBufferElements = 1e8;

// Parameters of the buffers that a rank keeps its part of the state in: sub-groups, blocks, or everything at once.
std::vector<double> buffers_of(const Case& c, const StageLayout& layout) {
  const double held = sharded_parameters(layout, c.plan);
  if (c.plan.offload.zero_stage < 3) return {held};
  std::vector<double> buffers;
  if (const double group = c.software.zero3_step_group_parameters; group > 0) {
    constexpr double kMost = 4096;
    const double size = std::max(group, held / kMost);
    for (double left = held; left > 0; left -= size) buffers.push_back(std::min(left, size));
    return buffers;
  }
  for (const Chunk& chunk : layout.chunks) {
    for (const Block& block : chunk.blocks) buffers.push_back(sharded_parameters(block, c.plan));
  }
  return buffers;
}

// PyTorch's host allocator makes page-locked blocks as large as the next power of two (c10 CachingHostAllocator).
double rounding_of(double bytes) { return bytes < 1 ? 0 : std::exp2(std::ceil(std::log2(bytes))) - bytes; }

struct RankMemory {
  HostMemoryParts parts;
  Bytes nvme;
};

RankMemory of_rank(const Case& c, const StageLayout& layout, Bytes activations) {
  const Offload& offload = c.plan.offload;
  const Software::Offload& software = c.software.offload;
  const bool rounds = software.pinned && software.pinned_rounds_up;
  const double held = sharded_parameters(layout, c.plan);
  double all_weights = 0;
  for (const Chunk& chunk : layout.chunks) {
    for (const Block& block : chunk.blocks) {
      all_weights += offloaded_weight_bytes(c, block) + (second_copy_on_host(c) ? second_copy_bytes(c, block) : 0);
    }
  }
  const double on_host = held * offload.of_optimizer();
  const bool updates = offload.optimizer != Place::gpu && software.adam != Software::Offload::Adam::gpu;
  const double state = host_state_bytes(c, layout), weights = held > 0 ? all_weights / held : 0;
  const double gradient = updates || offload.gradients != Place::gpu ? software.host_gradient_bytes : 0;
  const double share = offload.gradients != Place::gpu ? 1.0 : offload.of_optimizer();
  // Weights in full precision are page-locked for the copies; moments are not.
  const double master = state >= 12 ? 4 : 0;

  RankMemory rank;
  rank.parts.activations = activations;
  rank.parts.processes = {software.host_process_gb * kGiga};
  double rounding = 0, largest = 0;
  for (const double size : buffers_of(c, layout)) {
    largest = std::max(largest, size);
    if (!rounds) continue;
    if (offload.optimizer == Place::cpu) rounding += rounding_of(size * offload.of_optimizer() * master);
    if (offload.optimizer != Place::nvme) rounding += rounding_of(size * share * gradient);
    if (offload.params == Place::cpu) rounding += rounding_of(size * weights);
  }
  rank.parts.rounding = {rounding};
  if (offload.optimizer == Place::nvme) {
    const double buffers = software.overlap_nvme ? 2 : 1;
    rank.parts.staging_buffers += Bytes{std::min(largest * buffers, held) * (state + gradient)};
    rank.nvme += Bytes{on_host * (state + gradient)};
  } else {
    rank.parts.optimizer = Bytes{on_host * state} + offload.paged;
    rank.parts.gradients = {held * share * gradient};
  }
  if (offload.params == Place::nvme) {
    rank.parts.staging_buffers += Bytes{kParameterBuffers * std::min(kParameterBufferElements, held) * weights};
    rank.nvme += Bytes{all_weights};
  } else if (offload.params == Place::cpu) {
    rank.parts.weights = {all_weights};
  }
  return rank;
}

}  // namespace

std::vector<std::pair<std::string, Bytes>> HostMemoryParts::named() const {
  return {{"optimizer", optimizer},
          {"gradients", gradients},
          {"weights", weights},
          {"activations", activations},
          {"staging_buffers", staging_buffers},
          {"rounding", rounding},
          {"processes", processes}};
}

Bytes HostMemoryParts::total() const {
  Bytes sum;
  for (const auto& [name, bytes] : named()) sum += bytes;
  return sum;
}

HostMemoryParts& HostMemoryParts::operator+=(const HostMemoryParts& other) {
  optimizer += other.optimizer;
  gradients += other.gradients;
  weights += other.weights;
  activations += other.activations;
  staging_buffers += other.staging_buffers;
  rounding += other.rounding;
  processes += other.processes;
  return *this;
}

HostMemory host_memory(const Case& c, const std::vector<StageLayout>& layouts, std::span<const Bytes> activations) {
  std::vector<RankMemory> of_stage;
  for (std::size_t stage = 0; stage < layouts.size(); ++stage) {
    of_stage.push_back(of_rank(c, layouts[stage], activations[stage]));
  }
  HostMemory fullest;
  for (int first = 0; first < c.plan.gpus(); first += c.cluster.gpus_per_node) {
    HostMemory host;
    for (int rank = first; rank < std::min(c.plan.gpus(), first + c.cluster.gpus_per_node); ++rank) {
      const RankMemory& mine = of_stage[static_cast<std::size_t>(coordinates(c.plan, rank).pp)];
      host.parts += mine.parts;
      host.nvme += mine.nvme;
    }
    if (host.parts.total() > fullest.parts.total() || first == 0) fullest = host;
  }
  return fullest;
}

}  // namespace foretrain
