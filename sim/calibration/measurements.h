#pragma once

#include <span>
#include <string>
#include <variant>
#include <vector>

#include "sim/config/tree.h"
#include "sim/cost/kernel.h"

namespace foretrain {

// How a kernel was timed, nearest to training first. A loop of many launches settles at the clock and power that a
// training step runs at; a short burst boosts; the best shape of a search is a burst and the luckiest of many.
enum class Condition { loop, burst, best_shape };
inline constexpr int kConditions = 3;
const char* to_string(Condition condition);  // "loop", "burst", "best-shape"

// A matrix product. Without m, n and k only its rate is known (a profiler's peak).
struct GemmSample {
  Precision precision = Precision::bf16;
  Gemm gemm;
  std::string layout;  // "nn", "nt", "tn" or empty: reported, not modelled
};
// A gated feed-forward layer: two products up, the activation, one product down; and the same backward.
struct MlpSample {
  enum class Passes { forward, backward, full };
  Precision precision = Precision::bf16;
  std::int64_t tokens = 0, hidden = 0, ffn = 0;
  Passes passes = Passes::forward;
  bool fused = true;  // the activation and its product are one kernel
};
// Flash attention; the rate counts half of the square where it is causal.
struct AttentionSample {
  Precision precision = Precision::bf16;
  AttentionKernel kernel = AttentionKernel::flash2;
  AttentionShape shape;
  Pass pass = Pass::forward;
};
// A kernel bound by memory. Without bytes only its rate is known; it was large then.
struct MemorySample {
  Bytes bytes;
};
// Tiny kernels back to back: the time of one.
struct LaunchSample {
  bool graph = false;  // launched as nodes of a CUDA graph
};
using KernelSample = std::variant<GemmSample, MlpSample, AttentionSample, MemorySample, LaunchSample>;

// One row of a file of measurements (format: hardware/measurements/README.md).
struct Measurement {
  SourcePosition position;
  std::string source;
  std::size_t card = 0;  // index into Measurements::cards
  Condition condition = Condition::loop;
  KernelSample kernel;
  double seconds = 0.0;  // 0 where only the rate is known
  double rate = 0.0;     // FLOP/s or bytes/s; 0 for launches and layers
};

struct Measurements {
  std::vector<Datasheet> cards;  // those measured, in the order they are met
  std::vector<Measurement> rows;
};

// Reads every .csv and .yaml of the folders (or single files), in the order of their names; rules.yaml and
// constants.yaml are no files of measurements. Reports everything that is wrong, each with file:line:column; the result
// then holds the good rows.
Measurements load_measurements(std::span<const std::string> paths, const DataFolder& data, Diagnostics& diagnostics);

// A CSV file as the tree that the same measurements in YAML have: {key: value, ..., rows: [{column: cell, ...}, ...]}.
// Lines "#: key: value" set a value for every row, other lines that begin with '#' are comments, the first other line
// names the columns. Empty cells are absent. Reported and nothing returned: a row of another length, a quoted cell, no
// columns, a column twice, bytes that are not text, more than 64 MiB.
std::optional<config::Node> parse_csv(std::string_view text, const std::string& file_name, Diagnostics& diagnostics);

}  // namespace foretrain
