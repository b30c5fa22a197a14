#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "sim/calibration/confidence.h"

namespace foretrain {

// A validated run: how it was predicted, and what it is.
struct ValidatedRun {
  const Comparison* comparison = nullptr;
  const Case* subject = nullptr;
  std::string source;  // name of its file
  bool trusted = true;
  RunTraits traits;
};
// Those of files that could be read as cases, in their order. Files and validation must outlive them.
std::vector<ValidatedRun> validated_runs(std::span<const MeasuredFile> files, const Validation& validation);

// A file's name without folder and extension: what tables call a source.
std::string source_name(const MeasuredFile& file);

// Of the pairs of measured runs of one source whose order was given a likelihood in a range: how often it was right.
struct OrderReliability {
  double from = 0, to = 0;
  std::size_t pairs = 0;
  double said = 0, right = 0;  // mean likelihood, and the share that was right; every source counts alike
};
// Over the pairs of runs of one trusted source with the same tokens a step, flagged runs left out.
std::vector<OrderReliability> order_reliability(std::span<const MeasuredFile> files, const Validation& validation,
                                                const std::map<std::string, std::string>& flags,
                                                const ErrorModel& model);

}  // namespace foretrain
