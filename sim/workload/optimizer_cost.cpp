#include "sim/workload/optimizer_cost.h"

#include <algorithm>
#include <array>

#include "sim/cost/kernel.h"
#include "sim/model/operators.h"
#include "sim/plan/optimizer.h"

namespace foretrain {
namespace {

// Kernels of a fused optimizer over all tensors, norm and clipping.
constexpr double kKernels = 20;

// One matrix that Muon makes orthogonal: five rounds of X <- (a + b A + c A^2) X with A = X X^T, X the shorter side
// first, in bf16 (github.com/KellerJordan/Muon).
KernelTime orthogonalised(const Gpu& gpu, const Projection& matrix, std::int64_t count = 1) {
  if (matrix.n == 0 || matrix.k == 0 || count == 0) return {};
  const Precision precision = gpu.dense(Precision::bf16) ? Precision::bf16 : Precision::fp16;
  const std::int64_t rows = std::min(matrix.n, matrix.k), columns = std::max(matrix.n, matrix.k);
  const auto product = [&](std::int64_t n, std::int64_t k) {
    return gemm_time(gpu, precision, {.batch = count, .m = rows, .n = n, .k = k});
  };
  constexpr double kRounds = 5;
  return (product(rows, columns) + product(rows, rows) + product(columns, rows)) * kRounds;
}

// Matrices that are one product in a layer are updated apart: Q, K and V, gate and up.
KernelTime orthogonalised_mlp(const Case& c, const Projection& in, const Projection& out, std::int64_t count = 1) {
  const std::int64_t parts = c.model.gated ? 2 : 1;
  return orthogonalised(c.cluster.gpu, {in.n / parts, in.k}, count * parts) + orthogonalised(c.cluster.gpu, out, count);
}

// All matrices of a layer. Each is updated by one of the ranks that share it, which all have about as many.
KernelTime orthogonalised_layer(const Case& c, LayerKind kind) {
  const Gpu& gpu = c.cluster.gpu;
  const Model& m = c.model;
  const LayerProjections p = layer_projections(m, c.plan.tp);
  KernelTime rest = orthogonalised(gpu, p.attention_out), experts;
  if (m.mla) {
    for (const Projection& latent : latent_projections(m, c.plan.tp).all()) rest += orthogonalised(gpu, latent);
  } else {
    const std::int64_t q = m.query_width() / c.plan.tp, kv = (p.qkv.n - q) / 2;
    rest += orthogonalised(gpu, {q, m.hidden}) + orthogonalised(gpu, {kv, m.hidden}, 2);
  }
  if (kind.experts) {
    const ExpertProjections e = expert_projections(m, c.plan.tp, c.plan.etp);
    rest += orthogonalised(gpu, e.router) + orthogonalised_mlp(c, e.shared_in, e.shared_out);
    experts = orthogonalised_mlp(c, e.expert_in, e.expert_out, m.experts / c.plan.ep);
  } else {
    rest += orthogonalised_mlp(c, p.mlp_in, p.mlp_out);
  }
  return rest * (1.0 / c.plan.shard_ranks()) + experts * (1.0 / c.plan.expert_shard_ranks());
}

KernelTime orthogonalised_stage(const Case& c, const StageLayout& layout) {
  if (c.train.optimizer != Optimizer::muon || c.train.peft.active()) return {};
  std::array<double, LayerKind::kCount> layers{};
  std::array<LayerKind, LayerKind::kCount> kinds;
  for (const Chunk& chunk : layout.chunks) {
    for (const Block& block : chunk.blocks) {
      if (block.kind != Block::Kind::layer) continue;
      const auto kind = static_cast<std::size_t>(block.layer.index());
      kinds[kind] = block.layer;
      layers[kind] += 1;
    }
  }
  KernelTime time;
  for (std::size_t kind = 0; kind < layers.size(); ++kind) {
    if (layers[kind] > 0) time += orthogonalised_layer(c, kinds[kind]) * layers[kind];
  }
  return time;
}

}  // namespace

Composition optimizer_work(const Case& subject, const StageLayout& layout) {
  const Offload& offload = subject.plan.offload;
  return optimizer_work(subject, layout, 1.0 - offload.of_optimizer(),
                        offload.gradients == Offload::Place::gpu ? 1.0 : 0.0);
}

Composition optimizer_work(const Case& c, const StageLayout& layout, double share, double gradients) {
  if (share <= 0 && gradients <= 0) return {};
  const double held = sharded_parameters(layout, c.plan);
  const double traffic = optimizer_traffic_bytes(c.software, c.train, c.plan.zero);
  // Norm, clip and zeroing pass over the gradients a rank keeps; in fp16 so does the division by the scale of the loss,
  // which looks for overflow as well (read and written).
  const double kept = c.plan.zero >= 2 ? held : layout.trained();
  double passes = c.train.clip_gradients ? c.software.gradient_traffic_bytes : 0.0;
  if (c.train.precision == Precision::fp16) passes += 2.0 * state_bytes(c.software, c.train, c.plan.zero).gradients;
  const KernelTime streamed =
      streaming_time(c.cluster.gpu, {held * traffic * share + passes * kept * gradients}, kKernels);
  return composition_of(streamed + orthogonalised_stage(c, layout) * share);
}

Composition at_speed(Composition work, double speed) {
  if (speed == 1.0) return work;
  for (Time& part : work.parts) part = Time::from_seconds(part.seconds() / speed);
  return work;
}

}  // namespace foretrain
