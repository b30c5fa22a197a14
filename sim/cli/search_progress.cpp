#include "sim/cli/search_progress.h"

#include "sim/report/figures.h"

namespace foretrain::cli {

std::function<void(const SearchProgress&)> shown_on(ProgressLine& line, const report::Words& words) {
  return [&line, words](const SearchProgress& at) {
    const bool judging = at.phase == SearchProgress::Phase::judging;
    const Message best = at.best > Time::zero() ? Message(report::duration(at.best)) : message("none yet");
    line.show(static_cast<int>(at.phase), at.share,
              judging ? words("of the plans judged")
                      : words("of those worth simulating: {} of {} plans, best {}", at.counts.simulated,
                              at.counts.legal, best));
  };
}

}  // namespace foretrain::cli
