#pragma once

#include <string>
#include <vector>

#include "sim/analysis/case_change.h"
#include "sim/analysis/run_log.h"

namespace foretrain {

// Whether a measured run is what its description should give, and what would explain it.
struct Diagnosis {
  CaseReport report;  // of the run as described; its error bar says what is normal

  // A figure of the log beside the simulated one.
  struct Compared {
    LogFigure figure;
    double measured = 0, predicted = 0;
    double ratio() const { return measured / predicted; }
  };
  std::vector<Compared> compared;
  std::optional<Compared> most_off;  // the part of a step that is, where the log states parts and is not normal

  enum class Finding {
    normal,  // the step takes as long as nine in ten such runs
    slow,
    fast,        // longer or shorter than that
    fits_not,    // out of memory, and the simulation agrees
    should_fit,  // out of memory, although the simulation says that it fits
    no_speed,    // the log says nothing about the length of a step
  } finding = Finding::no_speed;
  std::optional<double> step_s;  // measured
  double low_s = 0, high_s = 0;  // where nine in ten such runs are; the prediction itself where that is not known

  // A known cause, and how far the run with it is from what was measured.
  struct Cause {
    std::string name;
    Message what;
    double step_s = 0;  // with the cause
    Bytes needed;
    double distance = 0;    // mean of |ln(measured / simulated)| over the figures that the log states
    bool explains = false;  // the measured figure is as normal for it as it is not for the run as described
  };
  double distance = 0;        // of the run as described
  std::vector<Cause> causes;  // those that come nearer to what was measured than the description, nearest first

  std::optional<OutOfMemory> out_of_memory;
  std::vector<Message> memory_notes;  // what the sentence itself gives away
};

// `report` is of the subject, with its error bar if there is one. Precondition: the log is not empty.
Diagnosis diagnose(const Case& subject, const CaseReport& report, const RunLog& log, const Environment& environment,
                   int threads);

}  // namespace foretrain
