#include "sim/report/case_figures.h"

#include "sim/report/json.h"
#include "sim/report/json_support.h"

namespace foretrain::report {
namespace {

void add_numbers(const Json& json, const std::string& path, Figures& figures) {
  if (json.is_number()) {
    figures[path] = json.get<double>();
  } else if (json.is_boolean()) {
    figures[path] = json.get<bool>() ? 1 : 0;
  } else if (json.is_object()) {
    for (const auto& [key, value] : json.items()) add_numbers(value, path.empty() ? key : path + "." + key, figures);
  }
}

bool is_data_parallel(TaskKind kind) {
  return kind == TaskKind::gradient_reduce || kind == TaskKind::parameter_gather || kind == TaskKind::shard_gather;
}

double data_parallel_bytes(const Step& step) {
  double bytes = 0;
  for (std::size_t i = 0; i < step.tasks.size(); ++i) {
    const TaskInfo& task = step.tasks[i];
    if (!is_data_parallel(task.kind)) continue;
    bytes += step.graph.cost(step.graph.cost_of(engine::TaskId(i))).work * step.communicator_ring_bytes[task.actor];
  }
  return bytes;
}

}  // namespace

Figures case_figures(const CaseReport& report) {
  Figures figures;
  add_numbers(case_json(report), "", figures);
  figures["gpus"] = report.subject.plan.gpus();
  if (report.fullest < report.memory.size()) {
    const MemoryParts& parts = report.memory[report.fullest].parts;
    figures["memory.states_bytes"] = (parts.weights + parts.gradients + parts.optimizer).value;
    figures["memory.batch_bytes"] = (parts.activations + parts.working_set + parts.logits).value;
  }
  if (report.per_class.size() == 1) figures["data_parallel_bytes"] = data_parallel_bytes(report.step);
  return figures;
}

}  // namespace foretrain::report
