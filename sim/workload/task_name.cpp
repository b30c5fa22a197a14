#include <fmt/format.h>

#include <array>

#include "sim/workload/step.h"

namespace foretrain {

std::string task_name(const Step& step, engine::TaskId task) {
  constexpr std::array names = {
      "forward",          "backward",        "input gradient",        "weight gradient",        "tensor collective",
      "context exchange", "expert exchange", "pipeline gather",       "pipeline transfer",      "gradient reduce",
      "parameter gather", "shard gather",    "tied embedding reduce", "mirrored copies reduce", "gradient norm",
      "optimizer",        "step overhead",   "copy to host",          "copy from host",         "host optimizer",
      "nvme read",        "nvme write"};
  const TaskInfo& info = step.tasks[task.index()];
  std::string name = names[static_cast<std::size_t>(info.kind)];
  if (info.micro_batch >= 0) name += fmt::format(" micro-batch {}", info.micro_batch);
  if (info.chunk >= 0) name += fmt::format(" chunk {}", info.chunk);
  if (info.block >= 0) name += fmt::format(" block {}", info.block);
  const bool of_rank = is_pass(info.kind) || info.kind == TaskKind::optimizer || info.kind == TaskKind::step_overhead;
  return of_rank ? fmt::format("{} (stage {}, rank class {})", name, step.stage[info.actor], info.actor)
                 : fmt::format("{} (communicator {})", name, info.actor);
}

}  // namespace foretrain
