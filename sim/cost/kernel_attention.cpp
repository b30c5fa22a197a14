#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <stdexcept>

#include "sim/cost/kernel.h"

namespace foretrain {
namespace {

// Data-centre parts whose attention kernels issue asynchronous warp-group products (wgmma, tcgen05). Workstation and
// GeForce Blackwell have neither and run the same kernels as Ada; what tells them apart is NVLink.
bool data_centre_blackwell(const Gpu& gpu) { return gpu.architecture == "blackwell" && gpu.nvlink.has_value(); }
bool asynchronous_products(const Gpu& gpu) { return gpu.architecture == "hopper" || data_centre_blackwell(gpu); }

// The wanted kernel's figures, or those of the nearest flash kernel that runs on this GPU, older ones first.
AchievedRates::Attention flash_rates(const Gpu& gpu, AttentionKernel kernel) {
  const std::size_t wanted = std::max(static_cast<std::size_t>(kernel), std::size_t{1});
  const auto usable = [&gpu](std::size_t i) {
    return gpu.achieved.flash[i].forward > 0 && gpu.achieved.flash[i].backward > 0;
  };
  for (std::size_t i = wanted; i >= 1; --i)
    if (usable(i)) return gpu.achieved.flash[i];
  for (std::size_t i = wanted + 1; i < kAttentionKernels; ++i)
    if (usable(i)) return gpu.achieved.flash[i];
  throw std::invalid_argument(fmt::format("{} runs no flash attention", gpu.name));
}

double number(std::int64_t n) { return static_cast<double>(n); }

// Scale, mask, softmax and dropout between the two products of unfused attention: bytes of a score in each pass.
struct ScoreTraffic {
  double forward, backward;
  double kernels;
};

// 16 bit: 12 and 24 (study of measured kernels; 10-12 and 23-26 on an A5000); kernels that are not fused compute the
// softmax in fp32 between casts, three times as much (study of whole steps). fp32 has nothing to cast: every kernel
// reads and writes the scores, dropout a mask of a byte as well, and the softmax's backward pass reads its output too.
ScoreTraffic score_traffic(Precision precision, bool fused) {
  if (element_bytes(precision) <= 2) return fused ? ScoreTraffic{12, 24, 2} : ScoreTraffic{36, 72, 6};
  return fused ? ScoreTraffic{17, 21, 2} : ScoreTraffic{33, 37, 4};
}

}  // namespace

KernelTime flash_attention_time(const Gpu& gpu, Precision precision, AttentionKernel kernel,
                                const AttentionShape& shape, Pass pass) {
  if (shape.batch <= 0 || shape.heads <= 0 || shape.head_dim <= 0 || shape.seq <= 0) return {};

  const bool forward = pass == Pass::forward;
  const AchievedRates::Attention rates = flash_rates(gpu, kernel);
  const Precision computed_in = unquantised(precision);
  const MatrixRate rate = matrix_rate(gpu, computed_in);
  const double small_head = shape.head_dim <= 64 && asynchronous_products(gpu) ? 0.8 : 1.0;
  const double flops_per_second = rate.datasheet.value * (forward ? rates.forward : rates.backward) * small_head;

  const double seq = number(shape.seq);
  // Half of the products run over the head dimension of queries and keys, half over that of values.
  const double value_dim = number(shape.value_dim > 0 ? shape.value_dim : shape.head_dim);
  const double head_dim = 0.5 * (8.0 * std::ceil(number(shape.head_dim) / 8.0) + 8.0 * std::ceil(value_dim / 8.0));
  const bool windowed = shape.causal && shape.window > 0 && shape.window < shape.seq;
  const double reach = windowed ? number(shape.window) : seq;  // keys of the last query
  const double batch_heads = number(shape.batch) * number(shape.heads);
  const double products = forward ? 1.0 : 2.5;  // 2 products forward, 5 backward (scores are computed again)

  // Mean work: half of the square when causal, with the masked halves of the diagonal blocks computed in vain.
  const double square = 4.0 * batch_heads * seq * seq * head_dim * products;
  // A window leaves reach (2 - reach / seq) of the seq keys on average; its edge cuts blocks as the diagonal does.
  const double left = windowed ? reach / seq * (2.0 - reach / seq) : 1.0;
  const double work = shape.causal ? 0.5 * square * left * (1.0 + rates.prologue / reach) : square;
  // The longest block, one row of queries over all keys on one SM: it rules when there are few heads.
  const double query_rows = data_centre_blackwell(gpu) ? 256.0 : 128.0;
  const double longest =
      4.0 * query_rows * std::min(seq, reach + query_rows) * head_dim * products * std::max(1, gpu.sm_count);
  const double p = forward ? 1.5 : 2.0, weight = forward ? 1.0 : 0.5;
  const double compute = std::pow(std::pow(work, p) + std::pow(weight * longest, p), 1.0 / p) / flops_per_second;

  // Never faster than Q, K, V and O (and their gradients) move: rules for very short sequences only.
  const double tensors = forward ? 4.0 : 8.0;
  const double bytes = tensors * batch_heads * seq * head_dim * element_bytes(computed_in);
  const double memory = bytes / (gpu.memory_bandwidth.value * gpu.achieved.memory);

  KernelTime time;
  (compute >= memory ? time.matmul : time.memory) = Seconds{std::max(compute, memory)};
  // 3 us where an empty kernel takes 2 us: the backward pass and long prologues need more than one launch.
  time.latency = gpu.achieved.kernel_floor * 1.5;
  return time;
}

KernelTime standard_attention_time(const Gpu& gpu, Precision precision, const AttentionShape& shape, Pass pass,
                                   bool fused_softmax) {
  if (shape.batch <= 0 || shape.heads <= 0 || shape.head_dim <= 0 || shape.seq <= 0) return {};

  const bool forward = pass == Pass::forward;
  const Precision computed_in = unquantised(precision);
  Gemm scores;  // S x S from two S x d: QK^T forward, dO V^T backward
  scores.batch = shape.batch * shape.heads;
  scores.m = scores.n = shape.seq;
  scores.k = shape.head_dim;
  scores.unaligned = shape.head_dim % 8 != 0;
  Gemm values = scores;  // S x d from S x S and S x d: PV forward; dV, dQ and dK backward
  values.n = shape.value_dim > 0 ? shape.value_dim : shape.head_dim;
  values.k = shape.seq;

  KernelTime time = gemm_time(gpu, computed_in, scores);
  time += gemm_time(gpu, computed_in, values) * (forward ? 1.0 : 3.0);

  const ScoreTraffic traffic = score_traffic(computed_in, fused_softmax);
  const double elements = number(shape.batch) * number(shape.heads) * number(shape.seq) * number(shape.seq);
  time += streaming_time(gpu, Bytes{elements * (forward ? traffic.forward : traffic.backward)}, traffic.kernels);
  return time;
}

}  // namespace foretrain
