#include "sim/workload/adapter_cost.h"

namespace foretrain {
namespace {

// Beside the products, of one adapter: bytes an element of the linear layer's output and input, and launches.
struct Traffic {
  double output = 0, input = 0, kernels = 0;
};

// Tensors of 2 or 4 bytes are read and written: scaling 2, adding 3 forward; scaling 2 and the sum of two input
// gradients 3 backward. fp32 adapters beside a 16-bit layer cast the input (2 read, 4 written), scale and add in fp32
// and cast the sum back; and the gradients the other way.
Traffic elementwise(const Case& c, Pass pass) {
  const double element = element_bytes(c.train.precision);
  const bool wide = c.software.lora_adapter_bytes >= 4 && element < 4;
  const double held = wide ? 4 : element;
  Traffic traffic;
  if (!c.software.lora_fused) {
    if (pass == Pass::forward) {
      traffic = wide ? Traffic{8 + 10 + 6, 6, 5} : Traffic{5 * element, 0, 2};
    } else {
      traffic = wide ? Traffic{6 + 8, 12, 5} : Traffic{2 * element, 3 * element, 2};
    }
  }
  if (c.train.peft.dropout > 0) {  // the input, what is left of it, and a mask of a byte
    traffic.input += 2 * held + 1;
    traffic.kernels += 1;
  }
  return traffic;
}

}  // namespace

KernelTime adapters_time(const Case& c, double tokens, const std::vector<Projection>& adapters, Pass pass) {
  const Gpu& gpu = c.cluster.gpu;
  const Precision precision = unquantised(c.train.precision);
  const auto rows = static_cast<std::int64_t>(tokens);
  const std::int64_t rank = c.train.peft.rank;
  const bool adds = c.software.lora_fused;
  const Traffic traffic = elementwise(c, pass);
  KernelTime time;
  for (const Projection& p : adapters) {
    if (pass == Pass::forward) {
      time += gemm_time(gpu, precision, {.m = rows, .n = rank, .k = p.k});
      time += gemm_time(gpu, precision, {.m = rows, .n = p.n, .k = rank, .accumulate = adds});
    } else {
      time += gemm_time(gpu, precision, {.m = rows, .n = rank, .k = p.n});
      time += gemm_time(gpu, precision, {.m = p.n, .n = rank, .k = rows});
      time += gemm_time(gpu, precision, {.m = rank, .n = p.k, .k = rows});
      time += gemm_time(gpu, precision, {.m = rows, .n = p.k, .k = rank, .accumulate = adds});
    }
    const double bytes =
        tokens * (traffic.output * static_cast<double>(p.n) + traffic.input * static_cast<double>(p.k));
    time += streaming_time(gpu, {bytes}, traffic.kernels);
  }
  return time;
}

KernelTime dequantise_time(const Case& c, const Projection& weights, Pass pass) {
  const WeightFormat* format = c.train.peft.format;
  if (format == nullptr || (pass == Pass::backward && format->kept_for_backward)) return {};
  const double count = static_cast<double>(weights.n) * static_cast<double>(weights.k);
  return streaming_time(c.cluster.gpu, {count * format->dequantise_bytes}, format->kernels);
}

}  // namespace foretrain
