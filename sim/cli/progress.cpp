#include "sim/cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>

#include "sim/base/time.h"
#include "sim/report/figures.h"

namespace foretrain::cli {
namespace {

// A signal handler reaches nothing but what is global.
std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free);

void interrupt(int) {
  interrupted = true;
  std::signal(SIGINT, SIG_DFL);
}

constexpr std::chrono::milliseconds kQuietStart{1000}, kBetweenLines{100};

}  // namespace

ProgressLine::ProgressLine(const CommonOptions& options)
    : words_(options.words), on_terminal_(!options.quiet && ::isatty(STDERR_FILENO) == 1) {}

ProgressLine::~ProgressLine() {
  if (shown_) fmt::print(stderr, "\r\033[K");
}

void ProgressLine::show(int phase, double share, const std::string& what) {
  const Clock::time_point now = Clock::now();
  if (phase != phase_) phase_begin_ = now;
  phase_ = phase;
  if (!on_terminal_ || now - begin_ < kQuietStart || now - last_ < kBetweenLines) return;
  last_ = now;
  shown_ = true;
  fmt::print(stderr, "\r\033[K{:3.0f} %  {}", 100 * share, what);
  const double elapsed = std::chrono::duration<double>(now - phase_begin_).count();
  if (share > 0 && elapsed > 0) {
    fmt::print(stderr, "{}", words_(", {} left", report::duration(Time::from_seconds(elapsed / share * (1 - share)))));
  }
  std::fflush(stderr);
}

const std::atomic<bool>& stop_on_interrupt() {
  std::signal(SIGINT, interrupt);
  return interrupted;
}

}  // namespace foretrain::cli
