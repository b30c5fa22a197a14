#pragma once

#include <atomic>
#include <chrono>
#include <string>

#include "sim/cli/command.h"

namespace foretrain::cli {

// A line on standard error that says how far work is and when it will be done. Shown from the first second on, only on
// a terminal and not with --quiet, and taken away again at the end.
class ProgressLine {
 public:
  explicit ProgressLine(const CommonOptions& options);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // `share` of `phase` is done; a phase that is not the one before starts the clock anew.
  void show(int phase, double share, const std::string& what);

 private:
  using Clock = std::chrono::steady_clock;
  report::Words words_;
  bool on_terminal_;
  bool shown_ = false;
  int phase_ = -1;
  Clock::time_point begin_ = Clock::now(), phase_begin_ = begin_, last_ = begin_;
};

// Set by the first Ctrl-C from now on; a second one ends the program.
const std::atomic<bool>& stop_on_interrupt();

}  // namespace foretrain::cli
