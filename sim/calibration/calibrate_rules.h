#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "sim/hardware/gpu.h"

namespace foretrain {

// Where a figure of hardware/calibrated comes from. In this order:
//  value      It is decided elsewhere, by whole training steps; rows of kernels are shown beside it.
//  measured   Fitted to rows of kernels, times `sustained`.
//  as         Without rows: that of another file, or of another precision of this file.
//  assumed    Without rows: a guess.
// With rows, `as` and `assumed` give way to the fit.
struct CalibrationRule {
  enum class Kind { absent, value, measured, as, assumed };
  Kind kind = Kind::absent;  // absent: the card does not have it
  SourcePosition position;
  std::string source;
  // The figure; for attention forward, backward, prologue in tokens.
  double value = 0.0;
  AchievedRates::Attention attention;
  std::string as;            // name of a file, or of a precision
  double times = 1.0;        // of what `as` names
  bool like_matmul = false;  // and times this file's bf16 (fp16) fraction over the other's
  // What a training step sustains of what kernels alone reach; unset: 1 for loops, 0.93 for bursts and best shapes.
  std::optional<double> sustained;
  std::optional<double> backward_of_forward;  // attention: where only forward passes are measured
};

struct FileRules {
  std::string name, title;
  SourcePosition position;
  std::vector<std::string> measured_on;
  std::array<CalibrationRule, kPrecisions> matmul;
  CalibrationRule memory, collective_channels;
  std::array<CalibrationRule, kAttentionKernels> attention;  // of flash kernels
};

struct CalibrationRules {
  CalibrationRule kernel_floor, elementwise_floor;  // microseconds; of every card
  std::vector<FileRules> files;
};

// Reads hardware/measurements/rules.yaml (format: README.md beside it). nullopt after reporting what is wrong.
std::optional<CalibrationRules> load_rules(const std::string& path, Diagnostics& diagnostics);

}  // namespace foretrain
