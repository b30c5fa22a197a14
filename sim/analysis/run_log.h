#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/units.h"

namespace foretrain {

// What training logs state about speed.
enum class LogFigure : std::uint8_t {
  iteration_s,  // a progress bar's seconds an iteration: of an optimizer step, or of a micro-batch
  step_s,       // of an optimizer step
  samples_per_s,
  tokens_per_s,  // of the whole job
  tokens_per_s_per_gpu,
  tflops_per_gpu,  // model FLOPs
  mfu,
  forward_s,  // of an optimizer step: DeepSpeed's wall-clock breakdown
  backward_s,
  optimizer_s,
  memory_bytes,  // the allocator's peak on a GPU
};
inline constexpr std::size_t kLogFigures = 11;
std::string_view to_string(LogFigure figure);

// What PyTorch says when an allocation fails, in its forms before and since version 2.1.
struct OutOfMemory {
  Bytes tried;
  std::optional<Bytes> capacity, free;
  std::optional<Bytes> in_use;                // by this process, what the allocator does not count included
  std::optional<Bytes> allocated;             // by PyTorch
  std::optional<Bytes> reserved_unallocated;  // held by its allocator, but not in use
};

// What was found in the text of a log: of each figure the median of all lines that state it.
struct RunLog {
  std::array<std::optional<double>, kLogFigures> figures;
  std::optional<OutOfMemory> out_of_memory;  // the last one
  std::optional<double> operator[](LogFigure figure) const { return figures[static_cast<std::size_t>(figure)]; }
  bool empty() const;
};

// Reads progress bars (tqdm), Hugging Face Trainer's summary, DeepSpeed's wall-clock breakdown and throughput lines,
// Megatron-LM's iteration lines, torchtitan's and LLM Foundry's metrics, and CUDA's out-of-memory sentence. Everything
// else is passed over. Takes time linear in the text, whatever it is; of a line only the first 16 KiB are read.
RunLog read_run_log(std::string_view text);

}  // namespace foretrain
