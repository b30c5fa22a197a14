#include "sim/engine/simulation.h"

#include <algorithm>
#include <bit>
#include <stdexcept>

#include "sim/engine/completion_heap.h"
#include "sim/engine/event_queue.h"
#include "sim/engine/fair_share.h"
#include "sim/engine/successors.h"
#include "sim/engine/work_duration.h"
#include "sim/engine/work_set.h"

namespace foretrain::engine {
namespace {

Time later(Time now, Time duration) {
  if (duration.ps > kLastInstant - now.ps) throw std::overflow_error("simulated time exceeds 2^62 ps");
  return now + duration;
}

// A running hash over (time, kind, task); each step is a bijection of the state, so no event is lost.
std::uint64_t extend_fingerprint(std::uint64_t hash, Time now, Event event) {
  hash = (hash ^ static_cast<std::uint64_t>(now.ps)) * 0x9e3779b97f4a7c15U;
  hash = (std::rotl(hash, 29) ^ event.order()) * 0xbf58476d1ce4e5b9U;
  return hash ^ (hash >> 32);
}

// How far a working task has come. `left` is as of `since`, and is brought up to date only when its rate changes.
struct Progress {
  double left = 0.0;
  double rate = 0.0;  // 0 before the first solve
  Time since;
  ResourceId bound;
  // Boyer and Moore's majority vote over the work done, weighted: exact if one resource bound more than half of it.
  ResourceId mostly_bound;
  double votes = 0.0;
};

class Run {
 public:
  Run(const TaskGraph& graph, const Options& options)
      : graph_(graph),
        options_(options),
        successors_(graph),
        waiting_(successors_.predecessor_counts()),
        solver_(graph),
        work_(graph, solver_.solo()) {
    const std::size_t tasks = graph.task_count();
    schedule_.start.resize(tasks);
    schedule_.end.resize(tasks);
    schedule_.released_by.resize(tasks);
    schedule_.bound_by.resize(tasks);
    queue_.reserve(most_at_once());
  }

  std::variant<Schedule, Deadlock, Late> run() {
    for (std::size_t task = 0; task < waiting_.size(); ++task) {
      if (waiting_[task] == 0) queue_.push(Time::zero(), {EventKind::start, TaskId(task)});
    }
    while (!queue_.empty() || !completions_.empty()) {
      if (std::min(queue_.next_time(), completions_.next_time()) > options_.until) return Late{};
      run_instant();
    }
    if (finished_ < graph_.task_count()) return Deadlock{find_wait_cycle(successors_, waiting_)};
    schedule_.makespan = queue_.now();
    return std::move(schedule_);
  }

 private:
  // An upper bound for the tasks that can run at one time: one a stream, and those on no stream.
  std::size_t most_at_once() const {
    std::vector<bool> on_stream(graph_.task_count());
    for (const auto& [stream, task] : graph_.enqueued()) on_stream[task.index()] = true;
    const auto free = static_cast<std::size_t>(std::count(on_stream.begin(), on_stream.end(), false));
    return std::min(graph_.task_count(), graph_.stream_count() + free);
  }

  // The phases of an instant: finish, release and start (tasks that take no time go round within the instant),
  // then change the work set, solve rates, record.
  void run_instant() {
    queue_.advance_to(std::min(queue_.next_time(), completions_.next_time()));
    const Time now = queue_.now();
    while (completions_.next_time() == now) {
      const std::uint32_t slot = completions_.top();
      completions_.pop();
      finish_work(slot);
    }
    while (queue_.has_due()) {
      const Event event = queue_.pop();
      switch (event.kind) {
        case EventKind::finish:
          finish(event.task);
          break;
        case EventKind::start:
          start(event.task);
          break;
        case EventKind::begin_work:
          record(event);
          beginning_.push_back(event.task);
          break;
      }
    }
    for (const TaskId task : beginning_) begin_work(task);
    beginning_.clear();
    work_.for_each_changed_group([this](std::span<const std::uint32_t> slots) { set_rates(slots); });
    if (options_.observer) observe();
  }

  void start(TaskId task) {
    record({EventKind::start, task});
    const Time now = queue_.now();
    schedule_.start[task.index()] = now;
    const Cost& cost = graph_.cost(graph_.cost_of(task));
    if (cost.work == 0.0) {
      queue_.push(later(now, cost.latency), {EventKind::finish, task});
    } else if (cost.use_count == 0) {
      const Time begin = later(now, cost.latency);
      queue_.push(later(begin, work_duration(cost.work, cost.rate_cap)), {EventKind::finish, task});
    } else {
      queue_.push(later(now, cost.latency), {EventKind::begin_work, task});
    }
  }

  void begin_work(TaskId task) {
    const std::uint32_t slot = work_.add(task);
    if (slot >= progress_.size()) progress_.resize(slot + std::size_t{1});
    progress_[slot] = {.left = graph_.cost(graph_.cost_of(task)).work,
                       .rate = 0.0,
                       .since = queue_.now(),
                       .bound = {},
                       .mostly_bound = {},
                       .votes = 0.0};
  }

  void finish_work(std::uint32_t slot) {
    // The work of a task whose completion is due is done, whatever rounding left of it.
    const TaskId task = work_.task(slot);
    vote(progress_[slot], progress_[slot].left);
    schedule_.bound_by[task.index()] = progress_[slot].mostly_bound;
    work_.remove(slot);
    finish(task);
  }

  void finish(TaskId task) {
    record({EventKind::finish, task});
    ++finished_;
    const Time now = queue_.now();
    schedule_.end[task.index()] = now;
    for (const TaskId next : successors_.of(task)) {
      TaskId& released_by = schedule_.released_by[next.index()];
      const bool later_than_others = !released_by.valid() || schedule_.end[released_by.index()] < now;
      if (now > Time::zero() && (later_than_others || task < released_by)) released_by = task;
      if (--waiting_[next.index()] == 0) queue_.push(now, {EventKind::start, next});
    }
  }

  // Gives the tasks in `slots`, which are all that may bind each other, their rates.
  void set_rates(std::span<const std::uint32_t> slots) {
    if (slots.size() == 1) {
      const SoloCost& solo = solver_.solo()[graph_.cost_of(work_.task(slots[0]))];
      set_rate(slots[0], solo.rate, solo.bound);
      return;
    }
    ++schedule_.rate_solves;
    tasks_.clear();
    for (const std::uint32_t slot : slots) tasks_.push_back(work_.task(slot));
    rates_.resize(slots.size());
    bound_by_.resize(slots.size());
    solver_.solve(tasks_, rates_, bound_by_);
    for (std::size_t i = 0; i < slots.size(); ++i) set_rate(slots[i], rates_[i], bound_by_[i]);
  }

  void set_rate(std::uint32_t slot, double rate, ResourceId bound) {
    Progress& progress = progress_[slot];
    if (rate == progress.rate && bound == progress.bound) return;
    const Time now = queue_.now();
    const double done = std::min(progress.left, progress.rate * (now - progress.since).seconds());
    vote(progress, done);
    progress.left -= done;
    progress.since = now;
    progress.bound = bound;
    if (rate == progress.rate) return;
    const bool first = progress.rate == 0.0;
    progress.rate = rate;
    // Its completion was not due yet, so something is left to do, even if rounding says otherwise.
    const Time end = later(now, std::max(Time{1}, work_duration(progress.left, rate)));
    if (first) {
      completions_.push(slot, work_.task(slot), end);
    } else {
      completions_.update(slot, end);
    }
  }

  static void vote(Progress& progress, double done) {
    if (progress.bound == progress.mostly_bound) {
      progress.votes += done;
    } else if (done <= progress.votes) {
      progress.votes -= done;
    } else {
      progress.mostly_bound = progress.bound;
      progress.votes = done - progress.votes;
    }
  }

  void record(Event event) {
    ++schedule_.events;
    schedule_.fingerprint = extend_fingerprint(schedule_.fingerprint, queue_.now(), event);
  }

  void observe() {
    observed_.clear();
    for (std::uint32_t slot = 0; slot < work_.slot_count(); ++slot) {
      if (work_.task(slot).valid()) observed_.push_back({work_.task(slot), progress_[slot].rate});
    }
    std::sort(observed_.begin(), observed_.end(), [](const auto& a, const auto& b) { return a.task < b.task; });
    options_.observer(queue_.now(), observed_);
  }

  const TaskGraph& graph_;
  const Options& options_;
  Successors successors_;
  std::vector<std::uint32_t> waiting_;  // by task: predecessors that have not ended
  FairShareSolver solver_;
  WorkSet work_;
  EventQueue queue_;
  CompletionHeap completions_;
  std::vector<Progress> progress_;  // by slot of the work set
  std::vector<TaskId> beginning_;   // enter the work set at the end of this instant
  std::size_t finished_ = 0;
  Schedule schedule_;

  std::vector<TaskId> tasks_;
  std::vector<double> rates_;
  std::vector<ResourceId> bound_by_;
  std::vector<ActiveTask> observed_;
};

}  // namespace

std::variant<Schedule, Deadlock, Late> simulate(const TaskGraph& graph, const Options& options) {
  return Run(graph, options).run();
}

}  // namespace foretrain::engine
