#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "sim/cost/kernel.h"

namespace foretrain {
namespace {

// Constants shared by all GPUs, chosen over tables of measured products on A100, H100, B200, V100, T4 and H800; they
// transfer to a GPU left out of the fit, the achieved rate does not (study of measured kernels, section "GEMM").
constexpr double kExposedStore = 0.5;      // share of writing a tile of C that nothing hides
constexpr double kExposedStoreFp8 = 1.1;   // with block scales
constexpr double kSmallTilePenalty = 0.3;  // operand traffic of a tile beyond that of 256 x 128
constexpr double kMemoryEfficiency = 0.9;  // of a product's operand traffic
constexpr double kSplitLatency = 0.75;     // of a kernel's floor (1.5 us of 2 us): the sum over the splits
constexpr double kDepthStep = 32;          // K is worked off in steps of 32
constexpr double kOffTensorCores = 15;     // batched attention products, head dim not a multiple of 8 (about
                                           // 10 TFLOP/s on an A100; study of measured steps)

struct Tile {
  double m, n;
};
constexpr std::array<Tile, 8> kTiles = {
    {{256, 128}, {128, 256}, {128, 128}, {256, 64}, {64, 256}, {128, 64}, {64, 128}, {64, 64}}};
constexpr std::array<double, 10> kSplits = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32};

double fourth_power(double x) { return x * x * x * x; }

struct Candidate {
  double seconds = std::numeric_limits<double>::infinity();
  double compute = 0.0, memory = 0.0, latency = 0.0;
  double store_share = 0.0;  // of `compute`, that scales with the bandwidth rather than the matrix rate
};

// Roofline as a p-norm: where compute and memory are near, they do not overlap perfectly.
KernelTime split_into_parts(const Candidate& best) {
  // Scaled by the larger term, so that no product is too small or large for its fourth power.
  const double scale = std::max(best.compute, best.memory);
  const double compute = fourth_power(best.compute / scale), memory = fourth_power(best.memory / scale);
  const double body = scale * std::sqrt(std::sqrt(compute + memory));
  // Shares of the p-norm are its exact elasticities: d ln(body) / d ln(compute) = compute^4 / (compute^4 + memory^4).
  const double matmul_share = compute / (compute + memory) * (1.0 - best.store_share);
  return {Seconds{body * matmul_share}, Seconds{body * (1.0 - matmul_share)}, Seconds{best.latency}};
}

}  // namespace

KernelTime gemm_time(const Gpu& gpu, Precision precision, const Gemm& gemm) {
  if (gemm.batch <= 0 || gemm.m <= 0 || gemm.n <= 0 || gemm.k <= 0) return {};

  const double b = static_cast<double>(gemm.batch), m = static_cast<double>(gemm.m);
  const double n = static_cast<double>(gemm.n), k = static_cast<double>(gemm.k);
  const MatrixRate rate = matrix_rate(gpu, precision);
  const double sm_count = std::max(1, gpu.sm_count);
  const double floor = gpu.achieved.kernel_floor.value;
  const double bandwidth = gpu.memory_bandwidth.value * std::max(kMemoryEfficiency, gpu.achieved.memory);
  const double slowdown = gemm.unaligned ? kOffTensorCores : 1.0;
  const double sm_rate = rate.achieved * rate.datasheet.value / sm_count / slowdown;

  const double ei = operand_bytes(precision);
  const double store_bytes = std::max(gemm.output_bytes, is_quantised(precision) ? 0.0 : ei);
  const double eo = store_bytes * (gemm.accumulate ? 2.0 : 1.0);
  const double traffic = b * (ei * (m * k + k * n) + eo * m * n);
  // Writing a tile of C, in steps of K that the SM could have done in its stead.
  const double exposed = is_quantised(precision) && !rate.emulated ? kExposedStoreFp8 : kExposedStore;
  const double store_depth = exposed * eo * rate.datasheet.value / (2.0 * gpu.memory_bandwidth.value);

  Candidate best;
  for (const double split : kSplits) {
    const double depth = kDepthStep * std::ceil(k / split / kDepthStep);
    // Partial sums are written and read in fp32.
    const double memory = (traffic + (split > 1 ? 4.0 * split * b * m * n : 0.0)) / bandwidth;
    const double latency = floor * (split > 1 ? 1.0 + kSplitLatency : 1.0);
    if (memory + latency >= best.seconds) break;  // and deeper splits only move more
    for (const Tile& tile : kTiles) {
      const double tiles = b * std::ceil(m / tile.m) * std::ceil(n / tile.n) * split;
      const double waves = tiles / sm_count;
      const double overlapped_waves = 0.5 * std::ceil(waves) + 0.5 * std::max(waves, 1.0);
      const double penalty = 1.0 + kSmallTilePenalty * (64.0 / tile.m + 64.0 / tile.n - 0.75);
      const double compute = overlapped_waves * 2.0 * tile.m * tile.n * (depth + store_depth) * penalty / sm_rate;
      if (compute + latency >= best.seconds) continue;
      const double body = std::sqrt(std::sqrt(fourth_power(compute) + fourth_power(memory)));
      if (body + latency >= best.seconds) continue;
      best = {body + latency, compute, memory, latency, store_depth / (depth + store_depth)};
    }
  }
  return split_into_parts(best);
}

}  // namespace foretrain
