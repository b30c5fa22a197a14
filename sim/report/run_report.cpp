#include "sim/report/run_report.h"

#include <algorithm>
#include <cmath>

namespace foretrain::report {

std::vector<Message> all_warnings(const CaseReport& report) {
  std::vector<Message> all;
  for (const auto* warnings : {&report.subject.warnings, &report.warnings}) {
    for (const Message& warning : *warnings) {
      if (std::find(all.begin(), all.end(), warning) == all.end()) all.push_back(warning);
    }
  }
  return all;
}

WholeBytes whole_bytes(const StagePeak& peak) {
  WholeBytes whole;
  whole.total = std::llround(peak.needed.value);
  std::int64_t sum = 0;
  for (auto& [name, bytes] : peak.parts.named()) {
    whole.parts.emplace_back(name, std::llround(bytes.value));
    sum += whole.parts.back().second;
  }
  whole.parts.emplace_back("context_and_communicators", whole.total - sum);
  return whole;
}

Bytes missing_memory(const CaseReport& report) {
  if (report.fits || report.memory.empty()) return {};
  return std::max(Bytes{}, report.memory[report.fullest].needed - report.capacity);
}

Bytes missing_host_memory(const CaseReport& report) {
  return report.host_fits() ? Bytes{} : report.host->parts.total() - *report.host_capacity;
}

}  // namespace foretrain::report
