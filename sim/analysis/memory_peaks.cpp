#include <optional>

#include "sim/analysis/case_report.h"

namespace foretrain {
namespace {

// Follows one GPU's compute stream and books what each pass takes and gives back. The stream runs one pass at a
// time, so the order of its tasks is the order in time.
class MemoryWalk {
 public:
  explicit MemoryWalk(const StageMemory& memory) : memory_(memory), now_(memory.always), peak_(memory.always) {}

  void visit(const TaskInfo& task) {
    if (task.kind == TaskKind::forward || task.kind == TaskKind::backward) {
      const Running pass{task.kind, task.micro_batch, task.chunk};
      if (running_ == pass) return;
      end_pass();
      begin_pass(pass);
    } else if (task.kind == TaskKind::optimizer) {
      end_pass();
      now_.optimizer_extra = memory_.optimizer_extra;
      note_peak();
      now_.optimizer_extra = {};
    }
  }

  const MemoryParts& peak() const { return peak_; }
  // Bytes still held once everything was given back; the static parts if the books balance.
  const MemoryParts& finish() {
    end_pass();
    return now_;
  }

 private:
  struct Running {
    TaskKind kind;
    std::int32_t micro_batch;
    std::int16_t chunk;
    bool operator==(const Running&) const = default;
  };

  void begin_pass(const Running& pass) {
    running_ = pass;
    const StageMemory::ChunkMemory& chunk = memory_.chunks[static_cast<std::size_t>(pass.chunk)];
    if (pass.kind == TaskKind::forward) {
      now_.activations += chunk.kept;
      now_.logits += chunk.logits;
    } else {
      now_.working_set += chunk.backward_working;
    }
    note_peak();
  }

  void end_pass() {
    if (running_ && running_->kind == TaskKind::backward) {
      const StageMemory::ChunkMemory& chunk = memory_.chunks[static_cast<std::size_t>(running_->chunk)];
      now_.working_set -= chunk.backward_working;
      now_.activations -= chunk.kept;
      now_.logits -= chunk.logits;
    }
    running_.reset();
  }

  void note_peak() {
    if (now_.total() > peak_.total()) peak_ = now_;
  }

  const StageMemory& memory_;
  MemoryParts now_, peak_;
  std::optional<Running> running_;
};

}  // namespace

MemoryParts bytes_left(const StageMemory& memory, const Step& step, std::size_t rank_class) {
  MemoryWalk walk(memory);
  for (engine::TaskId task : step.compute_tasks[rank_class]) walk.visit(step.tasks[task.index()]);
  return walk.finish();
}

std::vector<StagePeak> memory_peaks(const Case& subject, const Step& step) {
  const std::vector<StageMemory> memories = stage_memories(subject, step.layouts);
  std::vector<StagePeak> peaks;
  for (std::size_t stage = 0; stage < memories.size(); ++stage) {
    StagePeak worst;
    worst.stage = static_cast<int>(stage);
    for (std::size_t rank = 0; rank < step.stage.size(); ++rank) {
      if (step.stage[rank] != worst.stage) continue;
      MemoryWalk walk(memories[stage]);
      for (engine::TaskId task : step.compute_tasks[rank]) walk.visit(step.tasks[task.index()]);
      if (walk.peak().total() > worst.parts.total()) worst.parts = walk.peak();
    }
    worst.figures = figures(subject, worst.parts.total());
    worst.needed = needed_on_device(subject, worst.parts.total());
    peaks.push_back(worst);
  }
  return peaks;
}

}  // namespace foretrain
