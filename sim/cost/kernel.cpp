#include "sim/cost/kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace foretrain {
KernelTime& KernelTime::operator+=(const KernelTime& o) {
  matmul += o.matmul;
  memory += o.memory;
  latency += o.latency;
  return *this;
}

KernelTime operator+(KernelTime a, const KernelTime& b) { return a += b; }

KernelTime operator*(KernelTime a, double times) { return {a.matmul * times, a.memory * times, a.latency * times}; }

MatrixRate matrix_rate(const Gpu& gpu, Precision precision) {
  const auto rate_of = [&gpu](Precision p) -> std::optional<MatrixRate> {
    const std::optional<FlopsPerSecond> dense = gpu.dense(p);
    const double achieved = gpu.achieved.matmul[static_cast<std::size_t>(p)];
    if (!dense || !(dense->value > 0.0) || !(achieved > 0.0)) return std::nullopt;
    return MatrixRate{*dense, achieved, false};
  };
  if (std::optional<MatrixRate> own = rate_of(precision)) return *own;
  if (std::optional<MatrixRate> vector = rate_of(Precision::fp32)) {
    vector->emulated = true;
    return *vector;
  }
  throw std::invalid_argument(fmt::format("{} has neither a {} nor an fp32 rate", gpu.name, to_string(precision)));
}

KernelTime streaming_time(const Gpu& gpu, Bytes bytes, double kernels) {
  KernelTime time;
  time.memory = bytes / (gpu.memory_bandwidth * gpu.achieved.memory);
  time.latency = std::max(gpu.achieved.elementwise_floor, gpu.achieved.kernel_floor) * kernels;
  return time;
}

}  // namespace foretrain
