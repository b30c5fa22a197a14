#include "sim/analysis/breakdown.h"

#include <algorithm>
#include <numeric>

namespace foretrain {
namespace {

using engine::Schedule;
using engine::TaskId;

// What a task on a GPU's own stream counts as, other than the passes themselves.
Cause cause_of(const TaskInfo& task, int zero) {
  switch (task.kind) {
    case TaskKind::forward:
    case TaskKind::backward:
    case TaskKind::input_gradient:
    case TaskKind::weight_gradient:
      return Cause::compute;
    case TaskKind::tensor_collective:
      return Cause::tp_comm;
    case TaskKind::context_collective:
      return Cause::cp_comm;
    case TaskKind::expert_collective:
      return Cause::ep_comm;
    case TaskKind::pipeline_gather:
    case TaskKind::pipeline_transfer:
      return Cause::pp_comm;
    case TaskKind::gradient_reduce:
      return zero == 3 ? Cause::zero_comm : Cause::dp_comm;
    case TaskKind::parameter_gather:
    case TaskKind::shard_gather:
      return Cause::zero_comm;
    case TaskKind::tie_reduce:
    case TaskKind::mirror_reduce:
    case TaskKind::gradient_norm:
      return Cause::dp_comm;
    case TaskKind::optimizer:
      return Cause::optimizer;
    case TaskKind::step_overhead:
      return Cause::other;
    case TaskKind::copy_to_host:
    case TaskKind::copy_from_host:
    case TaskKind::host_optimizer:
    case TaskKind::nvme_read:
    case TaskKind::nvme_write:
      return Cause::offload;
  }
  return Cause::other;
}

// What waiting for a task counts as. A pass that is waited for is somebody else's, with all that it consists of.
Cause cause_of_wait(const TaskInfo& task, int zero, bool pipelined) {
  switch (task.kind) {
    case TaskKind::forward:
    case TaskKind::backward:
    case TaskKind::input_gradient:
    case TaskKind::weight_gradient:
    case TaskKind::tensor_collective:
    case TaskKind::context_collective:
    case TaskKind::expert_collective:
    case TaskKind::pipeline_gather:
      return pipelined ? Cause::bubble : Cause::dp_comm;
    default:
      return cause_of(task, zero);
  }
}

OffloadWait wait_of(TaskKind kind) {
  switch (kind) {
    case TaskKind::copy_from_host:
      return OffloadWait::copy_in;
    case TaskKind::copy_to_host:
      return OffloadWait::copy_out;
    case TaskKind::host_optimizer:
      return OffloadWait::host_optimizer;
    default:
      return OffloadWait::nvme;
  }
}

// Charges a slice to its cause.
void charge(Breakdown& sum, const CauseSlice& slice) {
  const Time time = slice.end - slice.begin;
  sum[slice.cause] += time;
  if (slice.cause == Cause::offload) sum.offload[static_cast<std::size_t>(slice.wait)] += time;
}

class Blamer {
 public:
  Blamer(const Step& step, const Schedule& schedule, int zero)
      : step_(step),
        schedule_(schedule),
        windows_(step_windows(step, schedule)),
        zero_(zero),
        pipelined_(*std::max_element(step.stage.begin(), step.stage.end()) > 0) {
    // Where ranks do not end together, what follows a rank's last task is the wait for its next step.
    const auto last = std::max_element(schedule.end.begin(), schedule.end.end());
    if (last != schedule.end.end() && !step.staggered)
      last_ = TaskId(static_cast<std::size_t>(last - schedule.end.begin()));
  }

  // Calls book(CauseSlice) for all that a rank class's step consists of, not in order of time.
  template <class Book>
  void walk(std::size_t rank_class, const Book& book) const {
    Time now = windows_.begin[rank_class];
    const Time end = now + windows_.length;
    for (TaskId task : step_.compute_tasks[rank_class]) {
      add_wait(book, now, schedule_.start[task.index()], schedule_.released_by[task.index()]);
      add_run(book, task);
      now = schedule_.end[task.index()];
    }
    add_wait(book, now, end, last_);
  }

 private:
  // An idle stretch is charged along the chain of tasks that made it: the one whose end closed it, the one that let
  // that one start, and so on back to where the stretch began.
  template <class Book>
  void add_wait(const Book& book, Time from, Time to, TaskId closed_by) const {
    while (to > from && closed_by.valid()) {
      const Time begin = std::max(from, schedule_.start[closed_by.index()]);
      const TaskInfo& info = step_.tasks[closed_by.index()];
      book(CauseSlice{cause_of_wait(info, zero_, pipelined_), wait_of(info.kind), begin, to});
      to = begin;
      closed_by = schedule_.released_by[closed_by.index()];
    }
    book(CauseSlice{pipelined_ ? Cause::bubble : Cause::other, {}, from, to});
  }

  template <class Book>
  void add_run(const Book& book, TaskId task) const {
    const TaskInfo& info = step_.tasks[task.index()];
    const Time start = schedule_.start[task.index()], end = schedule_.end[task.index()];
    if (!is_pass(info.kind)) {
      book(CauseSlice{cause_of(info, zero_), wait_of(info.kind), start, end});
      return;
    }
    const Composition& made_of = step_.compositions[info.composition];
    Time now = start;
    const auto spend = [&](Cause cause, Time time) {
      book(CauseSlice{cause, {}, now, now + time});
      now += time;
    };
    spend(Cause::compute, made_of[Part::matmul] + made_of[Part::memory] + made_of[Part::kernel_latency]);
    spend(Cause::launch, made_of[Part::launch]);
    spend(Cause::other, made_of[Part::straggler] + made_of[Part::other]);
    spend(Cause::tp_comm, made_of[Part::tensor_latency] + made_of[Part::tensor_transfer]);
    spend(Cause::cp_comm, made_of[Part::context_latency] + made_of[Part::context_transfer]);
    spend(Cause::ep_comm, made_of[Part::expert_latency] + made_of[Part::expert_transfer]);
    spend(Cause::pp_comm, made_of[Part::pipeline_latency] + made_of[Part::pipeline_transfer]);
    // What it took longer was taken by the collective that ran beside it.
    spend(zero_ == 3 ? Cause::zero_comm : Cause::dp_comm, end - now);
  }

  const Step& step_;
  const Schedule& schedule_;
  StepWindows windows_;
  int zero_;
  bool pipelined_;
  TaskId last_;
};

}  // namespace

std::string_view to_string(Cause cause) {
  constexpr std::array<std::string_view, kCauses> names = {"compute", "launch",  "tp_comm",   "cp_comm",
                                                           "ep_comm", "dp_comm", "zero_comm", "pp_comm",
                                                           "bubble",  "offload", "optimizer", "other"};
  return names[static_cast<std::size_t>(cause)];
}

std::string_view to_string(OffloadWait wait) {
  constexpr std::array<std::string_view, kOffloadWaits> names = {"copy_in", "copy_out", "host_optimizer", "nvme"};
  return names[static_cast<std::size_t>(wait)];
}

Time Breakdown::total() const { return std::accumulate(parts.begin(), parts.end(), Time{}); }

StepWindows step_windows(const Step& step, const Schedule& schedule) {
  StepWindows windows{std::vector<Time>(step.compute_tasks.size()), schedule.makespan, 0};
  if (!step.staggered) return windows;
  windows.length = Time::zero();
  for (std::size_t rank = 0; rank < step.compute_tasks.size(); ++rank) {
    const std::vector<TaskId>& tasks = step.compute_tasks[rank];
    windows.begin[rank] = schedule.start[tasks.front().index()];
    const Time length = schedule.end[tasks.back().index()] - windows.begin[rank];
    if (length <= windows.length) continue;
    windows.length = length;
    windows.longest = rank;
  }
  return windows;
}

std::vector<Breakdown> breakdowns(const Step& step, const Schedule& schedule, int zero) {
  const Blamer blamer(step, schedule, zero);
  std::vector<Breakdown> all;
  for (std::size_t r = 0; r < step.compute_tasks.size(); ++r) {
    Breakdown& sum = all.emplace_back();
    blamer.walk(r, [&](const CauseSlice& slice) { charge(sum, slice); });
  }
  return all;
}

std::vector<CauseSlice> cause_slices(const Step& step, const Schedule& schedule, int zero, std::size_t rank_class) {
  std::vector<CauseSlice> slices;
  Blamer(step, schedule, zero).walk(rank_class, [&](const CauseSlice& slice) {
    if (slice.end > slice.begin) slices.push_back(slice);
  });
  std::sort(slices.begin(), slices.end(), [](const auto& a, const auto& b) { return a.begin < b.begin; });
  return slices;
}

Breakdown mean(const std::vector<Breakdown>& per_class, const std::vector<int>& multiplicity) {
  const std::int64_t gpus = std::accumulate(multiplicity.begin(), multiplicity.end(), std::int64_t{0});
  Breakdown result;
  if (gpus == 0) return result;
  // The waits for offloaded state stand for their sum, so that they add up to it as well. Remainders are kept apart so
  // that 100 days on 10,000 GPUs do not overflow.
  constexpr std::size_t kAll = kCauses + kOffloadWaits;
  const auto part_of = [](auto& breakdown, std::size_t i) -> auto& {
    return i < kCauses ? breakdown.parts[i] : breakdown.offload[i - kCauses];
  };
  std::array<std::pair<std::int64_t, std::size_t>, kAll> remainder;
  std::int64_t left = 0;
  for (std::size_t i = 0; i < kAll; ++i) {
    std::int64_t rest = 0;
    Time& part = part_of(result, i);
    for (std::size_t r = 0; r < per_class.size() && i != static_cast<std::size_t>(Cause::offload); ++r) {
      const std::int64_t ps = part_of(per_class[r], i).ps;
      part.ps += ps / gpus * multiplicity[r];
      rest += ps % gpus * multiplicity[r];
    }
    part.ps += rest / gpus;
    remainder[i] = {rest % gpus, i};
    left += rest % gpus;
  }
  std::sort(remainder.rbegin(), remainder.rend());
  for (std::size_t i = 0; i < static_cast<std::size_t>(left / gpus); ++i) ++part_of(result, remainder[i].second).ps;
  for (const Time& wait : result.offload) result[Cause::offload] += wait;
  return result;
}

}  // namespace foretrain
