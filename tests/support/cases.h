#pragma once

#include <stdexcept>
#include <string>

#include "sim/analysis/case_report.h"
#include "sim/config/tree.h"

// Cases for tests, written as scenario files are.
namespace foretrain::testing {

inline DataFolder data_folder() { return {FORETRAIN_SOURCE_DIR}; }

inline const Environment& environment() {
  static const Environment loaded = [] {
    Diagnostics diagnostics;
    auto found = load_environment(data_folder(), diagnostics);
    if (!found) throw std::runtime_error(to_string(diagnostics.all().front()));
    return *found;
  }();
  return loaded;
}

// A scenario of one case from the text of its `base` map. Throws with the first diagnostic if it is wrong.
inline Case case_of(const std::string& yaml) {
  Diagnostics diagnostics;
  std::string text = "base:\n";
  for (std::size_t begin = 0; begin < yaml.size();) {
    const std::size_t end = std::min(yaml.find('\n', begin), yaml.size());
    text += "  " + yaml.substr(begin, end - begin) + "\n";
    begin = end + 1;
  }
  const auto document = config::parse_yaml(text, "test", diagnostics);
  auto scenario = document ? read_scenario(*document, data_folder(), diagnostics) : std::nullopt;
  if (!scenario) throw std::runtime_error(to_string(diagnostics.all().front()) + "\n" + text);
  return scenario->cases.front();
}

inline CaseReport simulate_plainly(const Case& subject,
                                   Communicators::Folding folding = Communicators::Folding::symmetric) {
  return simulate_case(subject, environment(), {.folding = folding, .with_advice = false, .with_elasticity = false});
}

// A framework that costs nothing: only the mathematics and the schedule are left.
inline Software without_overheads(Software s) {
  s.forward = {0, 0, 0, 0};
  s.backward = {0, 0, 0, 0};
  s.host_forward_ms = s.host_backward_ms = s.host_tensor_parallel_ms = s.host_zero3_hook_ms = 0;
  s.micro_batch_overhead_ms = s.step_overhead_ms = 0;
  s.jitter_per_doubling = 0;
  s.loss_bytes_per_logit = 0;
  s.optimizer_traffic_bytes = s.gradient_traffic_bytes = 0;
  return s;
}

}  // namespace foretrain::testing
