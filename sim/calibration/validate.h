#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/analysis/case_report.h"

namespace foretrain {

// One measured run beside its prediction. Errors are predicted / measured - 1: positive is too slow or too much.
struct Comparison {
  std::string name;
  std::size_t file = 0;  // index of its measured file
  std::string trust;     // as the file says
  std::string model;     // a description that is equal for equal models
  double tokens_per_step = 0;
  std::optional<double> measured_step_time_s, predicted_step_time_s;
  Measured::MemoryKind memory_kind = Measured::MemoryKind::allocated;
  std::optional<Bytes> measured_memory, predicted_memory;  // of memory_kind, on the fullest GPU
  bool measured_oom = false;
  std::optional<bool> predicted_oom;
  std::string failure;  // what our own code threw instead of an answer; empty if it answered

  std::optional<double> error() const;  // of the step time
  std::optional<double> memory_error() const;
};

// How good the predictions of a set of runs are. A figure is absent if no run says anything about it.
struct Accuracy {
  std::size_t cases = 0, step_times = 0, memories = 0, failures = 0;
  std::optional<double> mape;        // mean of |error| of the step time
  std::optional<double> median_ape;  // half of the runs are nearer
  std::optional<double> p90_ape;     // nine tenths are; between two runs, interpolated linearly
  std::optional<double> bias;        // mean of the error with its sign
  std::optional<double> memory_mape;
  // Share of the runs, whether they ran or ran out of memory, whose fate is predicted; and of those that did run out
  // of memory alone, which are few.
  std::optional<double> oom_accuracy, oom_found;
  std::size_t out_of_memory = 0;
  // Of the pairs of runs of one file with the same tokens a step whose measured times differ by more than 2 %: the
  // share that is predicted in the same order. And the same for pairs that train the same model.
  std::optional<double> pairwise_order_accuracy, same_model_order_accuracy;
  std::size_t pairs = 0, same_model_pairs = 0;
};
Accuracy accuracy(std::span<const Comparison> comparisons);

struct Refusal {
  std::string name;
  std::size_t file = 0;
  std::string why;
  bool faulty = false;  // the case is wrong, not (only) beyond what is simulated
};

struct Validation {
  struct Source {
    std::string path, title, url;
    Accuracy accuracy;
    std::size_t refused = 0;
  };
  std::vector<Source> sources;  // one a measured file
  std::vector<Comparison> cases;
  std::vector<Refusal> refused;
  Accuracy summary;
  // Mean of the sources' own mean errors: a source of many runs counts no more than one of few.
  std::optional<double> mape_of_sources;
};

// Simulates every case of the files that is not refused, on up to `threads` threads, and compares. The result does not
// depend on the number of threads. What `simulate` throws becomes that case's failure.
using Simulate = std::function<CaseReport(const Case&)>;
Validation validate(std::span<const MeasuredFile> files, const Simulate& simulate, int threads);

}  // namespace foretrain
