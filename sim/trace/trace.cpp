#include "sim/trace/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "sim/trace/link_use.h"
#include "sim/trace/task_names.h"
#include "sim/trace/tracks.h"

namespace foretrain::trace {
namespace {

using engine::TaskId;

constexpr Place track_of_causes(std::uint32_t rank) { return {rank, Lane::step_time, false}; }

// `part` of `whole` parts of a stretch of time, without overflow.
Time share(Time stretch, Time part, Time whole) {
  __extension__ using Wide = __int128;
  return {static_cast<std::int64_t>(static_cast<Wide>(stretch.ps) * part.ps / whole.ps)};
}

// Writes one case. Its ranks are the processes from `first_process` on, its links the one behind them.
class CaseTrace {
 public:
  CaseTrace(const CaseReport& report, const std::string& prefix, int first_process, EventWriter& writer)
      : report_(report),
        step_(report.step),
        names_(report),
        prefix_(prefix),
        first_process_(first_process),
        writer_(writer) {}

  void write(const Options& options) {
    name_processes();
    name_tracks(options);
    for (std::uint32_t rank = 0; rank < step_.stage.size(); ++rank) write_causes(rank);
    for (std::size_t task = 0; task < step_.tasks.size(); ++task) write_task(TaskId(task));
    if (options.kernels) write_kernels();
    write_arrows();
    for (std::uint32_t rank = 0; rank < step_.stage.size(); ++rank) write_memory(rank);
    write_links();
  }

  int processes() const { return static_cast<int>(step_.stage.size()) + 1; }

 private:
  Track track(const Place& place) const { return {process(place.rank_class), place.thread()}; }
  int process(std::uint32_t rank) const { return first_process_ + static_cast<int>(rank); }
  int links_process() const { return first_process_ + processes() - 1; }
  Time start(TaskId task) const { return report_.schedule.start[task.index()]; }
  Time end(TaskId task) const { return report_.schedule.end[task.index()]; }
  bool shown(TaskId task) const { return to_nanosecond(end(task)) > to_nanosecond(start(task)); }

  // "stage 3 of 16 (64 GPUs)"; where ranks of a stage differ, which of them.
  void name_processes() {
    const int stages = report_.subject.plan.pp;
    std::vector<int> of_stage(static_cast<std::size_t>(stages)), seen(of_stage.size());
    for (int stage : step_.stage) ++of_stage[static_cast<std::size_t>(stage)];
    for (std::uint32_t rank = 0; rank < step_.stage.size(); ++rank) {
      const auto stage = static_cast<std::size_t>(step_.stage[rank]);
      std::string name = prefix_;
      if (stages > 1) name += fmt::format("stage {} of {}", stage, stages);
      if (of_stage[stage] > 1) {
        name += fmt::format("{}ranks of kind {} of {}", stages > 1 ? ", " : "", ++seen[stage], of_stage[stage]);
      } else if (stages == 1) {
        name += "every rank";
      }
      const int gpus = step_.multiplicity[rank];
      writer_.name_process(process(rank), name + fmt::format(" ({} GPU{})", gpus, gpus == 1 ? "" : "s"));
    }
    writer_.name_process(links_process(), prefix_ + "links");
  }

  void name_tracks(const Options& options) {
    std::vector<std::array<bool, kThreads + 1>> used(step_.stage.size());
    const auto use = [&](const Place& place) {
      used[place.rank_class][static_cast<std::size_t>(place.thread())] = true;
    };
    for (std::size_t task = 0; task < step_.tasks.size(); ++task) {
      if (!shown(TaskId(task))) continue;
      for (const Place& place : places(step_, TaskId(task))) use(place);
    }
    for (std::uint32_t rank = 0; rank < step_.stage.size(); ++rank) {
      use(track_of_causes(rank));
      if (options.kernels) use({rank, Lane::kernels, false});
      for (int thread = 1; thread <= kThreads; ++thread) {
        if (used[rank][static_cast<std::size_t>(thread)])
          writer_.name_track({process(rank), thread}, thread_name(thread));
      }
    }
  }

  void write_causes(std::uint32_t rank) {
    for (const CauseSlice& slice : cause_slices(step_, report_.schedule, report_.subject.plan.zero, rank)) {
      const std::string_view cause = to_string(slice.cause);
      const std::string name =
          slice.cause == Cause::offload ? fmt::format("{}: {}", cause, to_string(slice.wait)) : std::string(cause);
      writer_.slice(track(track_of_causes(rank)), name, cause, slice.begin, slice.end);
    }
  }

  void write_task(TaskId task) {
    if (!shown(task)) return;
    const std::string name = names_.of(task), about = arguments(step_, task);
    const char* kind = category(step_.tasks[task.index()].kind);
    for (const Place& place : places(step_, task))
      writer_.slice(track(place), name, kind, start(task), end(task), about);
  }

  // Pieces are as long as on an idle machine; beside other traffic all of a task's pieces are stretched alike.
  void write_kernels() {
    for (std::size_t i = 0; i < step_.tasks.size(); ++i) {
      const TaskId task(i);
      const TaskInfo& info = step_.tasks[i];
      if (!is_pass(info.kind) || !shown(task)) continue;
      const Time whole = step_.compositions[info.composition].total(), elapsed = end(task) - start(task);
      Time done;
      for (const TaskPiece& piece : step_.pieces[info.composition]) {
        const Time begin = start(task) + share(elapsed, done, whole);
        done += piece.duration;
        const Time until = start(task) + share(elapsed, done, whole);
        const std::string name = fmt::format("{}{}{}", piece.of, *piece.what == '\0' ? "" : " ", piece.what);
        const std::string where = names_.block(task, piece.block);
        writer_.slice(track({info.actor, Lane::kernels, false}), name, "kernel", begin, until,
                      where.empty() ? "" : fmt::format(R"("block":"{}")", where));
      }
    }
  }

  // Where a rank takes part in both tasks the arrow stays with it, and else it goes from the one to the other.
  void write_arrows() {
    for (const engine::TaskGraph::Edge& edge : step_.graph.dependencies()) {
      if (!shown(edge.before) || !shown(edge.after)) continue;
      const std::vector<Place> from = places(step_, edge.before), to = places(step_, edge.after);
      bool met = false;
      for (const Place& a : from) {
        const auto b = std::find_if(to.begin(), to.end(), [&](const Place& p) { return p.rank_class == a.rank_class; });
        if (b == to.end()) continue;
        met = true;
        write_arrow(a, *b, edge);
      }
      if (!met) write_arrow(from.front(), to.front(), edge);
    }
  }

  // Arrows leave a slice a nanosecond before its end, where viewers find it still running.
  void write_arrow(const Place& from, const Place& to, const engine::TaskGraph::Edge& edge) {
    if (track(from) == track(to)) return;
    writer_.arrow(track(from), to_nanosecond(end(edge.before)) - Time{1000}, track(to), start(edge.after));
  }

  void write_memory(std::uint32_t rank) {
    const std::vector<MemoryMoment> timeline = memory_timeline(report_.subject, step_, report_.schedule, rank);
    std::set<std::string> ever;
    for (const MemoryMoment& moment : timeline) {
      for (const auto& [part, bytes] : moment.parts.named()) {
        if (bytes.value > 0) ever.insert(part);
      }
    }
    std::vector<double> before;
    for (const MemoryMoment& moment : timeline) {
      std::vector<EventWriter::Series> parts;
      std::vector<double> values;
      const auto named = moment.parts.named();
      for (const auto& [part, bytes] : named) {
        values.push_back(bytes.value);
        if (ever.contains(part)) parts.push_back({part, std::round(bytes.value)});
      }
      if (std::exchange(before, values) == values) continue;
      const EventWriter::Series total{"bytes", std::round(moment.parts.total().value)};
      writer_.counter(process(rank), "GPU memory", moment.at, {&total, 1});
      writer_.counter(process(rank), "GPU memory by part", moment.at, parts);
    }
  }

  void write_links() {
    for (const LinkUse& link : link_use(step_)) {
      const std::string name = fmt::format("{} (of {:.4g} GB/s)", link.name, link.capacity / kGiga);
      for (const LinkUse::Moment& moment : link.moments) {
        const EventWriter::Series rate{"GB/s", moment.rate / kGiga};
        writer_.counter(links_process(), name, moment.at, {&rate, 1});
      }
    }
  }

  const CaseReport& report_;
  const Step& step_;
  TaskNames names_;
  std::string prefix_;
  int first_process_;
  EventWriter& writer_;
};

// Members of the file's "otherData".
std::string metadata(std::span<const CaseReport> cases) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const CaseReport& report : cases) {
    all.push_back({{"name", report.name},
                   {"step_time_ps", report.step_time.ps},
                   {"ranks", fmt::format("shown {} of {}; each stands for ranks that cannot differ from it",
                                         report.step.simulated_ranks, report.step.total_ranks)}});
  }
  return R"("made_by":"foretrain","links":"without the collectives that passes contract","cases":)" +
         all.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

void write(std::span<const CaseReport> cases, const Options& options, const Sink& sink) {
  EventWriter writer(sink, metadata(cases));
  int process = 1;
  for (const CaseReport& report : cases) {
    CaseTrace trace(report, cases.size() > 1 ? report.name + ": " : "", process, writer);
    trace.write(options);
    process += trace.processes();
  }
  writer.finish();
}

Message ranks_shown(std::span<const CaseReport> cases) {
  std::vector<Message> shown;
  for (const CaseReport& report : cases) {
    if (report.step.simulated_ranks == report.step.total_ranks) continue;
    shown.push_back(message("{} of {} ranks{}", report.step.simulated_ranks, report.step.total_ranks,
                            cases.size() > 1 ? message(" of {}", report.name) : Message()));
  }
  if (shown.empty()) return {};
  return message("the trace shows {}; each stands for ranks that cannot differ from it", joined(shown, message(", ")));
}

}  // namespace foretrain::trace
