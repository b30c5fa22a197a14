#include "sim/cli/renting.h"

namespace foretrain::cli {

RentOptions renting(const CommonOptions& options, const ErrorBars& error_bars, ProgressLine& line) {
  RentOptions how;
  how.threads = threads_of(options);
  how.add_error_bar = [&error_bars](CaseReport& report) { add_error_bar(report, error_bars); };
  how.stop = &stop_on_interrupt();
  how.progress = [&options, &line](std::size_t done, std::size_t of) {
    line.show(0, static_cast<double>(done) / static_cast<double>(of), options.words("{} of {} machines", done, of));
  };
  return how;
}

}  // namespace foretrain::cli
