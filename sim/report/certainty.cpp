#include "sim/report/certainty.h"

#include <fmt/format.h>

#include <cmath>

#include "sim/report/describe.h"
#include "sim/report/figures.h"

namespace foretrain::report {

std::string range_of(const ErrorBar& bar, const Words& words) {
  return words("{} to {} s", significant(bar.low_s, 3), significant(bar.high_s, 3));
}

std::string certainty_of(const std::string& name, const ErrorBar& bar, const Words& words) {
  const ErrorBar::Nearest& nearest = bar.nearest;
  const std::string off = percent(std::abs(nearest.error));
  const Message predicted =
      nearest.error < 0 ? message("predicted {} too fast", off) : message("predicted {} too slow", off);
  const std::string run = fmt::format("{} ({} x {}, {})", nearest.name, nearest.gpus, nearest.gpu, nearest.software);
  return words("{}: {}, confidence {}; most alike is {}, {}", name, range_of(bar, words),
               words.term(name_of(bar.confidence)), run, predicted);
}

}  // namespace foretrain::report
