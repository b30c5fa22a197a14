#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <stdexcept>
#include <vector>

#include "sim/analysis/case_report.h"

namespace foretrain {
namespace {

// Follows one GPU's compute stream and books what each pass takes and gives back. The stream runs one pass at a
// time, so the order of its tasks is the order in time.
class MemoryWalk {
 public:
  MemoryWalk(const StageMemory& memory, double fragmentation)
      : memory_(memory),
        fragmentation_(fragmentation),
        now_(memory.always),
        peak_(memory.always),
        has_gradients_(memory.chunks.size(), false) {}

  // Called with what is held whenever that may have changed: when a pass begins, when the one before the visited task
  // has ended, or when the visited task ends.
  enum class When { pass_begins, pass_ended, task_ends };
  using Observer = std::function<void(const MemoryParts& now, When when)>;
  void observe(Observer observer) { observer_ = std::move(observer); }

  void visit(const TaskInfo& task) {
    if (is_pass(task.kind)) {
      const Running pass{task.kind, task.micro_batch, task.chunk};
      if (running_ == pass) return;
      end_pass();
      begin_pass(pass);
    } else if (task.kind == TaskKind::optimizer) {
      end_pass();
      now_.optimizer_extra = memory_.optimizer_extra;
      note_peak();
      now_.optimizer_extra = {};
      now_.gradients = memory_.always.gradients;
      has_gradients_.assign(has_gradients_.size(), false);
      tell(When::task_ends);
    }
  }

  const MemoryParts& peak() const { return peak_; }
  Bytes host_peak() const { return host_peak_; }
  Bytes on_host() const { return on_host_; }
  // What must fit of the allocator's bytes.
  Bytes needed() const { return needed_; }
  // The peak of everything else beside all the gradients and, where there are logits, what layers dropped before: the
  // allocator's pool keeps the blocks of freed gradients and of layers, which are too small for the larger tensors to
  // come.
  Bytes pooled() const { return beside_gradients_ + memory_.always.gradients + memory_.passing_gradients(); }
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
    now_.gathered_parameters = memory_.gathered;
    const auto index = static_cast<std::size_t>(pass.chunk);
    const StageMemory::ChunkMemory& chunk = memory_.chunks[index];
    if (pass.kind == TaskKind::forward) {
      now_.activations += chunk.kept;
      on_host_ += chunk.offloaded;
      dropped_ = std::max(dropped_, chunk.dropped);
      host_peak_ = std::max(host_peak_, on_host_);
      now_.logits += chunk.logits;
      note_peak();
    } else if (pass.kind != TaskKind::weight_gradient) {
      // The head comes first, and is through before the last layer starts.
      now_.logits += chunk.logits - chunk.logits_kept;
      note_peak();
      now_.logits -= chunk.logits;
      now_.working_set += chunk.backward_working;
      note_peak();
    }
  }

  void end_pass() {
    if (!running_) return;
    const auto index = static_cast<std::size_t>(running_->chunk);
    const StageMemory::ChunkMemory& chunk = memory_.chunks[index];
    if (running_->kind == TaskKind::forward) {
      now_.logits -= chunk.logits - chunk.logits_kept;
    } else {
      const bool first_half = running_->kind == TaskKind::input_gradient;
      const bool second_half = running_->kind == TaskKind::weight_gradient;
      if (!second_half) now_.activations -= chunk.kept - chunk.last_kept;
      if (first_half) now_.activations += chunk.deferred;
      if (!first_half && !has_gradients_[index]) now_.gradients += chunk.gradients;
      has_gradients_[index] = has_gradients_[index] || !first_half;
      note_peak(When::pass_ended);
      now_.activations -= second_half ? chunk.deferred : chunk.last_kept;
      if (!second_half) now_.working_set -= chunk.backward_working;
      if (!second_half) on_host_ -= chunk.offloaded;
    }
    now_.gathered_parameters = {};
    running_.reset();
    tell(When::pass_ended);
  }

  void tell(When when) {
    if (observer_) observer_(now_, when);
  }

  void note_peak(When when = When::pass_begins) {
    tell(when);
    if (now_.total() > peak_.total()) peak_ = now_;
    needed_ = std::max(needed_, with_fragments(now_, fragmentation_));
    const Bytes in_pool = now_.logits.value > 0 ? dropped_ : Bytes{};
    beside_gradients_ = std::max(beside_gradients_, now_.total() - now_.gradients + in_pool);
  }

  const StageMemory& memory_;
  double fragmentation_;
  MemoryParts now_, peak_;
  Bytes beside_gradients_, needed_;
  Bytes dropped_;                    // by the layers of a recomputed forward pass
  Bytes on_host_, host_peak_;        // activations
  std::vector<bool> has_gradients_;  // of the chunks, since the last optimizer step
  std::optional<Running> running_;
  Observer observer_;
};

// What the ranks of every stage hold, by their share of the batch.
class StageMemories {
 public:
  StageMemories(const Case& subject, const Step& step) : subject_(subject), step_(step) {}

  const StageMemory& of(std::size_t rank_class) {
    const Plan::Share share = subject_.plan.shares.empty() ? Plan::Share{} : step_.share[rank_class];
    const auto [known, is_new] = memories_.try_emplace(share);
    if (is_new) {
      known->second = subject_.plan.shares.empty() ? stage_memories(subject_, step_.layouts)
                                                   : stage_memories(with_share(subject_, share), step_.layouts);
    }
    return known->second[static_cast<std::size_t>(step_.stage[rank_class])];
  }

 private:
  const Case& subject_;
  const Step& step_;
  std::map<Plan::Share, std::vector<StageMemory>> memories_;
};

}  // namespace

MemoryParts bytes_left(const StageMemory& memory, const Step& step, std::size_t rank_class) {
  MemoryWalk walk(memory, 0);
  for (engine::TaskId task : step.compute_tasks[rank_class]) walk.visit(step.tasks[task.index()]);
  return walk.finish();
}

std::vector<MemoryMoment> memory_timeline(const Case& subject, const Step& step, const engine::Schedule& schedule,
                                          std::size_t rank_class) {
  constexpr Time kApart{1000};
  StageMemories memories(subject, step);
  const StageMemory& memory = memories.of(rank_class);
  std::vector<MemoryMoment> moments = {{step_windows(step, schedule).begin[rank_class], memory.always}};
  Time begins, ends, ended;  // of the task in hand; of the one before it
  MemoryWalk walk(memory, 0);
  using When = MemoryWalk::When;
  walk.observe([&](const MemoryParts& now, When when) {
    Time at = when == When::pass_begins ? begins : when == When::task_ends ? ends : ended;
    // Of several at one instant, the last at a pass's end and the first at its start are there.
    if (MemoryMoment& last = moments.back(); last.at >= at) {
      const Time floor = moments.size() > 1 ? moments[moments.size() - 2].at : last.at;
      if (when == When::pass_begins) {
        at = last.at + kApart;
      } else {
        last.at = std::max(floor, at - kApart);
        at = std::max(at, last.at);
      }
    }
    moments.push_back({at, now});
  });
  for (engine::TaskId task : step.compute_tasks[rank_class]) {
    begins = schedule.start[task.index()];
    ends = schedule.end[task.index()];
    walk.visit(step.tasks[task.index()]);
    ended = ends;
  }
  walk.finish();
  return moments;
}

std::vector<Bytes> host_activation_peaks(const Case& subject, const Step& step) {
  StageMemories memories(subject, step);
  std::vector<Bytes> peaks(step.layouts.size());
  for (std::size_t rank = 0; rank < step.stage.size(); ++rank) {
    const auto stage = static_cast<std::size_t>(step.stage[rank]);
    MemoryWalk walk(memories.of(rank), 0);
    for (engine::TaskId task : step.compute_tasks[rank]) walk.visit(step.tasks[task.index()]);
    walk.finish();
    if (walk.on_host().value != 0) throw std::logic_error("activations are left in host memory");
    peaks[stage] = std::max(peaks[stage], walk.host_peak());
  }
  return peaks;
}

namespace {

StagePeak peak_of(const Case& subject, const Step& step, std::size_t rank, const StageMemory& memory) {
  MemoryWalk walk(memory, subject.software.activation_fragmentation);
  for (engine::TaskId task : step.compute_tasks[rank]) walk.visit(step.tasks[task.index()]);
  StagePeak peak;
  peak.stage = step.stage[rank];
  peak.share = step.share[rank];
  peak.parts = walk.peak();
  peak.capacity = subject.cluster.gpu_of_kind(step.gpu_kind[rank]).memory;
  peak.needed = walk.needed() + outside_the_allocator(subject);
  peak.figures = figures(subject, peak.parts.total(), walk.pooled());
  // A run that fits holds no more than there is: under pressure the allocator gives back what it does not use.
  const Bytes there_is = std::max(peak.capacity, peak.needed);
  peak.figures.reserved = std::min(peak.figures.reserved, there_is);
  peak.figures.device = std::min(peak.figures.device, there_is);
  return peak;
}

}  // namespace

// Of the rank of every stage that has least left of its GPU.
std::vector<StagePeak> memory_peaks(const Case& subject, const Step& step) {
  StageMemories memories(subject, step);
  std::vector<StagePeak> peaks(step.layouts.size());
  for (std::size_t stage = 0; stage < peaks.size(); ++stage) {
    Bytes least_left{std::numeric_limits<double>::infinity()};
    for (std::size_t rank = 0; rank < step.stage.size(); ++rank) {
      if (step.stage[rank] != static_cast<int>(stage)) continue;
      const StagePeak peak = peak_of(subject, step, rank, memories.of(rank));
      if (peak.capacity - peak.needed >= least_left) continue;
      least_left = peak.capacity - peak.needed;
      peaks[stage] = peak;
    }
  }
  return peaks;
}

}  // namespace foretrain
