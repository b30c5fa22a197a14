#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/calibration/measurements.h"

namespace foretrain {

// How well a fitted curve meets its rows.
struct FitQuality {
  std::size_t rows = 0;
  Condition condition = Condition::loop;       // of the rows
  double median_error = 0.0, p90_error = 0.0;  // of |predicted / measured - 1|
  double bias = 0.0;                           // median of predicted / measured - 1
  bool at_bound = false;                       // the data would have gone beyond what is physical
  std::vector<std::string> without_data;       // regions of the curve that no row lies in
};

// One fraction of a datasheet rate.
struct RateFit {
  double value = 0.0;
  FitQuality quality;
};
struct AttentionFit {
  std::optional<double> forward, backward;  // absent: no rows of that pass
  double prologue = 0.0;                    // tokens
  bool prologue_measured = false;           // else the rows could not tell, and it is the prior
  FitQuality quality;
};
struct LaunchFit {
  double stream_us = 0.0;
  std::optional<double> graph_us;
  FitQuality quality;
};

// Everything is fitted to the rows that were timed most like training: loops if there are any, else bursts, else best
// shapes. The curves are those of sim/cost/kernel.h, with the datasheet of each row's own card; several cards that
// share a file share the fraction. nullopt where there are no rows.

// Fraction of the dense matrix rate, between 0.3 and 1.1, from products and gated layers. 16-bit formats of one
// datasheet rate are fitted together. The fixed cost of a launch (0.5 to 10 us, in a loop from Python mostly the
// host's) is fitted beside it and not kept: it belongs to how the rows were timed. A best shape has no tile or wave
// losses, so its rate is the fraction itself.
std::optional<RateFit> fit_matmul(const Measurements& measurements, const std::string& achieved, Precision precision);

// Fractions of both passes, between 0.05 and 1.1, and the prologue they share, 50 to 2000 tokens. Rows of head
// dimension 128 if there are two or more, which is what the fractions are defined at; else all.
std::optional<AttentionFit> fit_attention(const Measurements& measurements, const std::string& achieved,
                                          AttentionKernel kernel);

// Fraction of the memory bandwidth, between 0.3 and 1.05.
std::optional<RateFit> fit_memory(const Measurements& measurements, const std::string& achieved);

// Median over cards of the time of a tiny kernel; of one file's cards, or of all.
std::optional<LaunchFit> fit_launch(const Measurements& measurements, const std::optional<std::string>& achieved);

}  // namespace foretrain
