#include "sim/cli/search_progress.h"

#include "sim/config/quote.h"
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

std::function<void(int, double)> sizes_shown_on(ProgressLine& line, const report::Words& words) {
  return [&line, words](int gpus, double share) { line.show(0, share, words("at {} GPUs", gpus)); };
}

void warn_of_no_turn(const Case& c, Diagnostics& diagnostics) {
  diagnostics.warning(c.position, message("{} was not looked at: stopped before", config::in_quotes(c.name)));
}

}  // namespace foretrain::cli
