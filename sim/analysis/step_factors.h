#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>

#include "sim/scenario/scenario.h"

namespace foretrain {

// The attention kernels with a fitted rate of their own.
inline constexpr std::array kFlashKernels = {AttentionKernel::flash1, AttentionKernel::flash2, AttentionKernel::flash3};

// What whole measured steps make of figures that were measured or documented one by one: factors near 1, fitted to
// published runs by `foretrain calibrate --software` and kept in hardware/calibrated/steps.yaml.
struct StepFactors {
  // Of a framework, by profile.
  struct OfSoftware {
    double elementwise = 1.0;    // bytes that elementwise kernels move: passes the profile's class of fusion misses
    double host = 1.0;           // host time to issue kernels: the CPUs these runs had
    double step_overhead = 1.0;  // fixed cost of a step
  };
  // Of a GPU: sustained clocks under the power of a whole step against those of a kernel loop.
  struct OfGpu {
    double matmul_16 = 1.0, matmul_8 = 1.0;                                  // matrix rate in fp16 and bf16, and in fp8
    std::array<double, kAttentionKernels> attention = {1.0, 1.0, 1.0, 1.0};  // of each flash kernel; unused: standard
  };
  std::map<std::string, OfSoftware> software;
  std::map<std::string, OfGpu> gpus;
};

// Reads hardware/calibrated/steps.yaml; without the file all factors are 1.
std::optional<StepFactors> load_step_factors(const DataFolder& data, Diagnostics& diagnostics);

// The case with its software's and GPU's factors applied.
Case with_step_factors(Case subject, const StepFactors& factors);

}  // namespace foretrain
