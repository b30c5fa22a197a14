#pragma once

#include <span>
#include <string>

#include "sim/analysis/case_report.h"
#include "sim/trace/event_writer.h"

namespace foretrain::trace {

struct Options {
  bool kernels = false;  // also what passes are made of; needs SimulationOptions::with_pieces
};

// Writes the simulated steps as trace events: a process for every simulated rank and one for the links of each case.
//
// On the track "step time by cause" the slices of each category add up to that part of the rank's breakdown; all other
// tracks show tasks as they ran. Tasks that take no time are left out. Arrows are the dependencies between tracks.
void write(std::span<const CaseReport> cases, const Options& options, const Sink& sink);

// "16 of 1,024 ranks are shown; ..." of each case that stands for more than it simulates; empty if none does.
Message ranks_shown(std::span<const CaseReport> cases);

}  // namespace foretrain::trace
