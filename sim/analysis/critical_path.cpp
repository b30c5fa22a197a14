#include "sim/analysis/critical_path.h"

#include <algorithm>
#include <numeric>

namespace foretrain {
namespace {

using engine::TaskId;

HardwareRate rate_of(LinkKind kind) {
  switch (kind) {
    case LinkKind::nvlink:
      return HardwareRate::nvlink;
    case LinkKind::pcie:
    case LinkKind::socket:
      return HardwareRate::pcie;
    case LinkKind::host_memory:
    case LinkKind::host_staging:
      return HardwareRate::host_memory;
    case LinkKind::nic:
    case LinkKind::fabric:
      return HardwareRate::nic;
    case LinkKind::cpu:
      return HardwareRate::host_cores;
    case LinkKind::nvme:
      return HardwareRate::nvme;
  }
  return HardwareRate::nic;
}

// What a task that no shared link held up was bound by: a communicator's slowest link, the threads of the host's
// optimizer, the requests a drive is given.
LinkKind own_kind(const Step& step, const TaskInfo& info) {
  if (info.kind == TaskKind::host_optimizer) return LinkKind::cpu;
  if (info.kind == TaskKind::nvme_read || info.kind == TaskKind::nvme_write) return LinkKind::nvme;
  return step.communicator_link_kind[info.actor];
}

// Work beside a collective takes longer than its parts, each in proportion.
void add_compute(HeldBy& held, const Step& step, const TaskInfo& info, double elapsed) {
  const Composition& made_of = step.compositions[info.composition];
  const double nominal = made_of.total().seconds();
  if (nominal <= 0) return;
  const auto part = [&](Part p) { return made_of[p].seconds() * elapsed / nominal; };
  held[HardwareRate::matmul] += part(Part::matmul);
  held[HardwareRate::memory_bandwidth] += part(Part::memory);
  held[HardwareRate::kernel_latency] += part(Part::kernel_latency);
  held[HardwareRate::host] += part(Part::launch);
  held[HardwareRate::network_latency] += part(Part::tensor_latency) + part(Part::context_latency) +
                                         part(Part::expert_latency) + part(Part::pipeline_latency);
  held.other_seconds += part(Part::straggler) + part(Part::other);
  held[rate_of(step.tensor_link_kind[info.actor])] += part(Part::tensor_transfer) + part(Part::pipeline_transfer);
  held[rate_of(step.context_link_kind[info.actor])] += part(Part::context_transfer);
  held[rate_of(step.expert_link_kind[info.actor])] += part(Part::expert_transfer);
}

HeldBy held_by(const CaseReport& r, TaskId task, double elapsed) {
  HeldBy held;
  const TaskInfo& info = r.step.tasks[task.index()];
  if (is_pass(info.kind) || info.kind == TaskKind::optimizer || info.kind == TaskKind::step_overhead) {
    add_compute(held, r.step, info, elapsed);
  } else if (info.kind == TaskKind::gradient_norm) {
    held[HardwareRate::network_latency] += elapsed;
  } else {
    const double latency = std::min(elapsed, r.step.graph.cost(r.step.graph.cost_of(task)).latency.seconds());
    const engine::ResourceId bound = r.schedule.bound_by[task.index()];
    const bool by_link = bound.valid() && r.step.resource_is_link[bound.index()];
    held[HardwareRate::network_latency] += latency;
    held[rate_of(by_link ? r.step.link_kind_of_resource[bound.index()] : own_kind(r.step, info))] += elapsed - latency;
  }
  return held;
}

// Passes with the collectives inside their layers are one part.
Message kind_in_words(TaskKind kind) {
  switch (kind) {
    case TaskKind::forward:
    case TaskKind::backward:
    case TaskKind::input_gradient:
    case TaskKind::weight_gradient:
    case TaskKind::tensor_collective:
    case TaskKind::context_collective:
    case TaskKind::expert_collective:
    case TaskKind::pipeline_gather:
      return message("passes");
    case TaskKind::pipeline_transfer:
      return message("transfers between stages");
    case TaskKind::gradient_reduce:
      return message("reduction of gradients");
    case TaskKind::parameter_gather:
      return message("gather of updated parameters");
    case TaskKind::shard_gather:
      return message("ZeRO-3 gathers");
    case TaskKind::tie_reduce:
    case TaskKind::mirror_reduce:
      return message("reduction of gradients between stages");
    case TaskKind::gradient_norm:
      return message("agreement on the gradient norm");
    case TaskKind::optimizer:
      return message("optimizer");
    case TaskKind::step_overhead:
      return message("fixed cost of a step");
    case TaskKind::copy_to_host:
      return message("copies to the host");
    case TaskKind::copy_from_host:
      return message("copies from the host");
    case TaskKind::host_optimizer:
      return message("optimizer on the host");
    case TaskKind::nvme_read:
    case TaskKind::nvme_write:
      return message("NVMe drives");
  }
  return message("other");
}

Message in_words(const Step& step, const TaskInfo& info) {
  const bool of_rank = is_pass(info.kind) || info.kind == TaskKind::optimizer;
  const bool staged = std::any_of(step.stage.begin(), step.stage.end(), [](int stage) { return stage > 0; });
  if (!of_rank || !staged) return kind_in_words(info.kind);
  return message("{} of stage {}", kind_in_words(info.kind), step.stage[info.actor]);
}

// "passes" and "passes of stage 3" are passes.
bool is_of_kind(const Message& what, const Message& kind) {
  return what == kind || (!what.arguments().empty() && what.arguments().front() == kind);
}

}  // namespace

double HeldBy::total() const { return std::accumulate(seconds.begin(), seconds.end(), other_seconds); }

HeldBy& HeldBy::operator+=(const HeldBy& more) {
  for (std::size_t i = 0; i < kHardwareRates; ++i) seconds[i] += more.seconds[i];
  other_seconds += more.other_seconds;
  return *this;
}

std::vector<std::pair<std::string_view, double>> HeldBy::named() const {
  std::vector<std::pair<std::string_view, double>> all;
  for (std::size_t i = 0; i < kHardwareRates; ++i)
    all.emplace_back(to_string(static_cast<HardwareRate>(i)), seconds[i]);
  all.emplace_back("other", other_seconds);
  std::erase_if(all, [](const auto& named) { return !(named.second > 0); });
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  return all;
}

std::vector<CriticalPath::Place> CriticalPath::places() const {
  std::vector<Place> all;
  for (const Part& part : parts) {
    auto place = std::find_if(all.begin(), all.end(), [&](const Place& p) { return p.longest.what == part.what; });
    if (place == all.end()) place = all.insert(all.end(), Place{0, {}, part});
    ++place->visits;
    place->held += part.held;
    if (part.length() > place->longest.length()) place->longest = part;
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Place& a, const Place& b) { return a.held.total() > b.held.total(); });
  return all;
}

CriticalPath critical_path(const CaseReport& r) {
  const StepWindows windows = step_windows(r.step, r.schedule);
  TaskId task;
  Time from = Time::zero();
  if (r.step.staggered) {
    task = r.step.compute_tasks[windows.longest].back();
    from = windows.begin[windows.longest];
  } else if (const auto last = std::max_element(r.schedule.end.begin(), r.schedule.end.end());
             last != r.schedule.end.end()) {
    task = TaskId(static_cast<std::size_t>(last - r.schedule.end.begin()));
  }
  CriticalPath path;
  for (; task.valid() && r.schedule.end[task.index()] > from; task = r.schedule.released_by[task.index()]) {
    const Time begin = std::max(from, r.schedule.start[task.index()]), end = r.schedule.end[task.index()];
    const TaskInfo& info = r.step.tasks[task.index()];
    const bool inside_layers = !is_pass(info.kind) && kind_in_words(info.kind) == kind_in_words(TaskKind::forward);
    Message what = in_words(r.step, info);
    if (inside_layers && !path.parts.empty() && is_of_kind(path.parts.back().what, what)) what = path.parts.back().what;
    if (path.parts.empty() || path.parts.back().what != what) path.parts.push_back({begin, end, what, 0, {}});
    CriticalPath::Part& part = path.parts.back();
    part.begin = begin;
    ++part.tasks;
    part.held += held_by(r, task, (end - begin).seconds());
  }
  std::reverse(path.parts.begin(), path.parts.end());
  for (const CriticalPath::Part& part : path.parts) path.held += part.held;
  return path;
}

}  // namespace foretrain
