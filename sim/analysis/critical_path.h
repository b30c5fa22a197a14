#pragma once

#include <array>
#include <string>
#include <vector>

#include "sim/analysis/case_report.h"

namespace foretrain {

// How much of a stretch of time each rate held: what the GPU, a link or the host was busy with.
struct HeldBy {
  std::array<double, kHardwareRates> seconds{};
  double other_seconds = 0;  // fixed cost of a step, and waiting for the slowest of many ranks
  double& operator[](HardwareRate rate) { return seconds[static_cast<std::size_t>(rate)]; }
  double operator[](HardwareRate rate) const { return seconds[static_cast<std::size_t>(rate)]; }
  double total() const;
  HeldBy& operator+=(const HeldBy& more);
  // Names as in Elasticity, those that held something, longest first.
  std::vector<std::pair<std::string_view, double>> named() const;
};

// The tasks that decide how long a step is: each starts the instant the one before it ends. A task on it is held by
// what it consists of; work that shares its GPU or its links for as long as it really took.
struct CriticalPath {
  // Tasks of one kind in one place that follow each other.
  struct Part {
    Time begin, end;
    Message what;  // "passes of stage 3"
    std::size_t tasks = 0;
    HeldBy held;
    Time length() const { return end - begin; }
  };
  std::vector<Part> parts;  // in order of time, without gaps
  HeldBy held;              // adds up to the step time
  // Parts of one name together: how often the path is there, and its longest stay. Longest in all first.
  struct Place {
    std::size_t visits = 0;
    HeldBy held;
    Part longest;
  };
  std::vector<Place> places() const;
};
CriticalPath critical_path(const CaseReport& report);

}  // namespace foretrain
