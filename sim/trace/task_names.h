#pragma once

#include <string>
#include <vector>

#include "sim/analysis/case_report.h"

namespace foretrain::trace {

// Names of slices, as profilers of training runs give them: "forward layers 3..5 micro-batch 7", "all-gather weights".
class TaskNames {
 public:
  explicit TaskNames(const CaseReport& report);

  std::string of(engine::TaskId task) const;
  // A block of the chunk that a pass works on ("layer 3"); -1: the one that the task is about. Empty if there is none.
  std::string block(engine::TaskId task, int index) const;

 private:
  struct ChunkNames {
    std::vector<std::string> blocks;
    std::string whole;
  };
  std::string part(const TaskInfo& info) const;
  const ChunkNames* chunk(const TaskInfo& info) const;

  const Step& step_;
  std::vector<std::vector<ChunkNames>> chunks_;  // per stage and chunk
};

// What a communication or host task is about, as members of a JSON object: who takes part, how much is moved.
std::string arguments(const Step& step, engine::TaskId task);

// "pass", "collective", "copy", "host" or "step": none of them is a cause of the breakdown.
const char* category(TaskKind kind);

}  // namespace foretrain::trace
