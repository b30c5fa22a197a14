#pragma once

#include <cstdint>

#include "sim/hardware/gpu.h"

namespace foretrain {

// Device time of a kernel, split by what it is spent on. The parts add up to the whole; each part is homogeneous of
// degree -1 in its own rate, so shares of a step say what a faster rate would buy.
struct KernelTime {
  Seconds matmul;   // bound by the matrix rate
  Seconds memory;   // bound by HBM bandwidth
  Seconds latency;  // fixed device cost of starting kernels

  Seconds total() const { return matmul + memory + latency; }
  KernelTime& operator+=(const KernelTime& o);
};
KernelTime operator+(KernelTime a, const KernelTime& b);
KernelTime operator*(KernelTime a, double times);

// The matrix rate a precision runs at, and the fraction of it that kernels reach. A precision without a rate of its own
// (bf16 on Volta) is emulated at the fp32 vector rate; the plan's legality check warns about it.
struct MatrixRate {
  FlopsPerSecond datasheet;
  double achieved = 0.0;
  bool emulated = false;
};
// Throws std::invalid_argument for a GPU that has not even an fp32 rate.
MatrixRate matrix_rate(const Gpu& gpu, Precision precision);

// A (batched) matrix product C[M,N] = A[M,K] B[K,N]. Without rows, columns, depth or batch it takes no time.
struct Gemm {
  std::int64_t batch = 1, m = 0, n = 0, k = 0;
  bool accumulate = false;  // C is read and added to (gradient accumulation)
  double output_bytes = 2;  // of an element of C (4 for fp32 gradients; fp32 and tf32 products: at least 4)
  bool unaligned = false;   // batched attention products with a head dim that is no multiple of 8 (no tensor cores)
};
// Tile and wave quantisation, split-K, roofline p-norm (study of measured kernels, section "GEMM"): within 3 to 5 % of
// measured bf16 products on A100 and H100, 12 % on V100 and B200. Rises with every extent, and is never below what
// the achieved matrix rate or the memory bandwidth allow. The search takes about a microsecond; callers memoise.
KernelTime gemm_time(const Gpu& gpu, Precision precision, const Gemm& gemm);

// A zero-bubble pipeline runs a backward pass in two halves: first the gradients of activations, which the stage before
// waits for, later those of the weights, which nobody waits for until the optimizer steps (Qi et al., arXiv
// 2401.10241).
enum class Pass { forward, backward, input_gradient, weight_gradient };

// Self-attention over whole sequences: batch sequences of length seq, `heads` query heads of dimension head_dim.
struct AttentionShape {
  std::int64_t batch = 1, heads = 1, head_dim = 128, seq = 0;
  bool causal = true;
  std::int64_t value_dim = 0;  // of values and output where it is not head_dim (latent attention); 0 = head_dim
  std::int64_t window = 0;     // keys that a query sees at most, itself included (causal flash kernels); 0 = all
};
// Mean work and longest block (study of measured kernels, section "attention"). Kernels fall back to the nearest flash
// kernel that the GPU has; throws std::invalid_argument if it has none (the plan's legality check refuses those).
// fp8 runs compute attention in bf16.
KernelTime flash_attention_time(const Gpu& gpu, Precision precision, AttentionKernel kernel,
                                const AttentionShape& shape, Pass pass);
// Unfused attention: QK^T and PV as batched GEMMs, softmax and dropout as passes over the batch*heads*seq*seq scores.
// `fused_softmax`: scale, mask and softmax are one kernel (Megatron); else the scores cross memory more often. The
// whole square of scores is computed whether or not attention is causal. A head_dim that is no multiple of 8 keeps the
// products off the tensor cores.
KernelTime standard_attention_time(const Gpu& gpu, Precision precision, const AttentionShape& shape, Pass pass,
                                   bool fused_softmax);

// Kernels bound by memory: `bytes` in all, started as `kernels` launches. Bytes move at the bandwidth a fused
// streaming kernel reaches, each launch adds the device floor of an elementwise kernel.
KernelTime streaming_time(const Gpu& gpu, Bytes bytes, double kernels);

}  // namespace foretrain
