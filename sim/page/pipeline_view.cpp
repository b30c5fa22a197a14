#include "sim/page/pipeline_view.h"

#include <algorithm>

namespace foretrain::page {
namespace {

using Slice = PipelineView::Slice;

Activity activity_of(TaskKind kind) {
  switch (kind) {
    case TaskKind::forward:
      return Activity::forward;
    case TaskKind::backward:
      return Activity::backward;
    case TaskKind::input_gradient:
      return Activity::input_gradient;
    case TaskKind::weight_gradient:
      return Activity::weight_gradient;
    case TaskKind::optimizer:
      return Activity::optimizer;
    case TaskKind::step_overhead:
      return Activity::other;
    case TaskKind::copy_to_host:
    case TaskKind::copy_from_host:
    case TaskKind::host_optimizer:
    case TaskKind::nvme_read:
    case TaskKind::nvme_write:
      return Activity::host;
    default:
      return Activity::communication;
  }
}

// Collectives inside layers cut a pass without ending it.
bool belongs_to(const Slice& pass, const TaskInfo& info) {
  if (pass.activity > Activity::weight_gradient || info.micro_batch != pass.micro_batch || info.chunk != pass.chunk)
    return false;
  return !is_pass(info.kind) || activity_of(info.kind) == pass.activity;
}

std::vector<Slice> compute_slices(const Step& step, const engine::Schedule& schedule, std::size_t rank_class) {
  std::vector<Slice> slices;
  for (const engine::TaskId task : step.compute_tasks[rank_class]) {
    const TaskInfo& info = step.tasks[task.index()];
    const Time begin = schedule.start[task.index()], end = schedule.end[task.index()];
    if (begin == end) continue;
    if (!slices.empty() && belongs_to(slices.back(), info)) {
      slices.back().end = end;
    } else {
      slices.push_back({activity_of(info.kind), info.micro_batch, info.chunk, begin, end});
    }
  }
  return slices;
}

// Of one kind and in order of begin: what overlaps or touches becomes one.
void join_touching(std::vector<Slice>& slices) {
  std::sort(slices.begin(), slices.end(), [](const Slice& a, const Slice& b) { return a.begin < b.begin; });
  std::vector<Slice> joined;
  for (const Slice& slice : slices) {
    if (!joined.empty() && slice.begin <= joined.back().end) {
      joined.back().end = std::max(joined.back().end, slice.end);
    } else {
      joined.push_back(slice);
    }
  }
  slices = std::move(joined);
}

// Pipeline transfers are left aside: a pass that waits for one shows it as a gap.
std::vector<std::vector<Slice>> slices_beside(const Step& step, const engine::Schedule& schedule,
                                              const Communicators& communicators) {
  std::vector<std::vector<Slice>> communication(step.stage.size()), host(step.stage.size());
  for (std::size_t task = 0; task < step.tasks.size(); ++task) {
    const TaskInfo& info = step.tasks[task];
    const bool of_communicator = !is_pass(info.kind) && info.kind != TaskKind::optimizer &&
                                 info.kind != TaskKind::step_overhead && info.kind != TaskKind::gradient_norm;
    if (info.on_compute_stream || !of_communicator || info.kind == TaskKind::pipeline_transfer) continue;
    const Time begin = schedule.start[task], end = schedule.end[task];
    if (begin == end || info.actor >= communicators.all().size()) continue;
    const Activity activity = activity_of(info.kind);
    for (const std::uint32_t member : communicators.all()[info.actor].rank_classes) {
      auto& slices = activity == Activity::host ? host : communication;
      slices[member].push_back({activity, -1, -1, begin, end});
    }
  }
  for (std::size_t rank = 0; rank < communication.size(); ++rank) {
    join_touching(communication[rank]);
    join_touching(host[rank]);
    communication[rank].insert(communication[rank].end(), host[rank].begin(), host[rank].end());
  }
  return communication;
}

// Keeps the beginning and the end, which are what is special about a step, and takes the middle together.
void leave_out_middle(std::vector<Slice>& slices, std::size_t most) {
  if (slices.size() <= most || most < 3) return;
  const std::size_t head = (most - 1) / 2, tail = most - 1 - head;
  const std::size_t last = slices.size() - tail;
  const Slice middle{Activity::left_out, -1, -1, slices[head].begin, slices[last - 1].end, last - head};
  slices.erase(slices.begin() + static_cast<std::ptrdiff_t>(head) + 1,
               slices.begin() + static_cast<std::ptrdiff_t>(last));
  slices[head] = middle;
}

}  // namespace

const char* to_string(Activity activity) {
  constexpr std::array names = {"forward",   "backward", "input_gradient", "weight_gradient", "communication",
                                "optimizer", "host",     "other",          "left_out"};
  return names[static_cast<std::size_t>(activity)];
}

PipelineView pipeline_view(const Step& step, const engine::Schedule& schedule, const Communicators& communicators,
                           const PipelineLimits& limits) {
  PipelineView view;
  view.end = schedule.makespan;
  std::vector<std::size_t> first_of_stage;  // rank class
  for (std::size_t rank = 0; rank < step.stage.size(); ++rank) {
    const auto stage = static_cast<std::size_t>(step.stage[rank]);
    if (stage >= first_of_stage.size()) first_of_stage.resize(stage + 1, step.stage.size());
    first_of_stage[stage] = std::min(first_of_stage[stage], rank);
  }
  const std::size_t all = first_of_stage.size(), shown = std::min(all, std::max<std::size_t>(1, limits.stages));
  view.all_stages = static_cast<int>(all);
  auto beside = slices_beside(step, schedule, communicators);
  for (std::size_t i = 0; i < shown; ++i) {
    const std::size_t stage = shown == 1 ? 0 : i * (all - 1) / (shown - 1);
    const std::size_t rank = first_of_stage[stage];
    PipelineView::Stage& of = view.stages.emplace_back();
    of.stage = static_cast<int>(stage);
    of.gpus = step.multiplicity[rank];
    of.compute = compute_slices(step, schedule, rank);
    of.beside = std::move(beside[rank]);
    for (const Slice& slice : of.compute) {
      of.time[static_cast<std::size_t>(slice.activity)] += slice.end - slice.begin;
      of.passes += slice.activity <= Activity::weight_gradient;
    }
    leave_out_middle(of.compute, limits.slices * 3 / 4 / shown);
    leave_out_middle(of.beside, limits.slices / 4 / shown);
  }
  return view;
}

}  // namespace foretrain::page
