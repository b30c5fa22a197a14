#pragma once

#include <string>
#include <vector>

#include "sim/analysis/case_report.h"

namespace foretrain::report {

// The answer to a scenario: what table, JSON and CSV are made of.
struct RunReport {
  std::string title;
  Scenario::Ask ask = Scenario::Ask::faster;
  std::vector<CaseReport> cases;  // in the scenario's order
  Verdict verdict;
};

// Warnings of the scenario and of its simulation, each once.
std::vector<Message> all_warnings(const CaseReport& report);

// The memory that must fit on a stage's GPU, in whole bytes: parts by name, and what the driver and the communication
// library hold beside them. The parts add up to the total exactly.
struct WholeBytes {
  std::vector<std::pair<std::string, std::int64_t>> parts;
  std::int64_t total = 0;
};
WholeBytes whole_bytes(const StagePeak& peak);

// How much memory a case lacks on its fullest GPU; 0 if it fits.
Bytes missing_memory(const CaseReport& report);
// The same of the fullest host.
Bytes missing_host_memory(const CaseReport& report);

}  // namespace foretrain::report
