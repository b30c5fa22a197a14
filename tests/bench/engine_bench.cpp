// How fast the event engine is: pending events, fair shares, whole runs.

#include <benchmark/benchmark.h>

#include <cmath>
#include <limits>
#include <random>

#include "sim/engine/completion_heap.h"
#include "sim/engine/event_queue.h"
#include "sim/engine/fair_share.h"
#include "sim/engine/simulation.h"
#include "tests/engine/pipelines.h"

using namespace foretrain;
using namespace foretrain::engine;

namespace {

constexpr double kNoCap = std::numeric_limits<double>::infinity();

// The hold model: pop the earliest of N pending events and push one later (Jones, CACM 29(4), 1986).
// Increments are exponential, or of five distinct values as symmetric training steps produce.
void event_queue_hold(benchmark::State& state, bool ties) {
  const auto pending = static_cast<std::size_t>(state.range(0));
  std::mt19937_64 random(1);
  std::vector<std::int64_t> increments(1 << 16);
  for (auto& increment : increments) {
    const double uniform = static_cast<double>((random() >> 11) + 1) * 0x1p-53;
    increment = ties ? static_cast<std::int64_t>(1 + random() % 5) * 1000
                     : 1 + static_cast<std::int64_t>(-std::log(uniform) * 1e6);
  }
  EventQueue queue;
  queue.reserve(pending);
  std::size_t next = 0;
  const auto push = [&](TaskId task) {
    queue.push(queue.now() + Time{increments[next++ & (increments.size() - 1)]}, {EventKind::finish, task});
  };
  for (std::size_t i = 0; i < pending; ++i) push(TaskId(i));
  for (auto _ : state) {
    queue.advance_to(queue.next_time());
    push(queue.pop().task);
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK_CAPTURE(event_queue_hold, expo, false)->RangeMultiplier(10)->Range(1'000, 1'000'000);
BENCHMARK_CAPTURE(event_queue_hold, ties, true)->RangeMultiplier(10)->Range(1'000, 1'000'000);

// Pop one completion, re-time k others, start one.
void completion_rekey(benchmark::State& state) {
  const auto slots = static_cast<std::size_t>(state.range(0));
  const auto changed = static_cast<std::size_t>(state.range(1));
  std::mt19937_64 random(2);
  CompletionHeap heap;
  std::int64_t now = 0;
  const auto later = [&] { return Time{now + 1 + static_cast<std::int64_t>(random() % 1'000'000)}; };
  for (std::size_t i = 0; i < slots; ++i) heap.push(static_cast<std::uint32_t>(i), TaskId(i), later());
  for (auto _ : state) {
    const std::uint32_t done = heap.top();
    now = heap.next_time().ps;
    heap.pop();
    for (std::size_t i = 0; i < changed; ++i) {
      const auto slot = static_cast<std::uint32_t>(random() % slots);
      if (slot != done) heap.update(slot, later());
    }
    heap.push(done, TaskId(done), later());
  }
}
BENCHMARK(completion_rekey)->ArgsProduct({{256, 4096}, {1, 16, 128}});

TaskId add_flow(TaskGraph& graph, std::span<const ResourceUse> route) {
  return graph.add_task(graph.add_cost(Time::zero(), 1e6, kNoCap, route));
}

// GPUs on a switch with one link each way; every GPU sends `fan_out` flows round the ring.
TaskGraph ring_traffic(std::size_t gpus, std::size_t fan_out) {
  TaskGraph graph;
  std::vector<ResourceId> up, down;
  for (std::size_t i = 0; i < gpus; ++i) {
    up.push_back(graph.add_resource(25e9));
    down.push_back(graph.add_resource(25e9));
  }
  for (std::size_t i = 0; i < gpus; ++i) {
    for (std::size_t k = 1; k <= fan_out; ++k) {
      add_flow(graph, std::vector<ResourceUse>{{up[i], 1.0}, {down[(i + k) % gpus], 1.0}});
    }
  }
  return graph;
}

// Each GPU sends four flows to random others over a random spine: many levels.
TaskGraph random_traffic(std::size_t gpus) {
  constexpr std::size_t kGpusPerLeaf = 16, kSpines = 8;
  std::mt19937_64 random(3);
  TaskGraph graph;
  const auto add_links = [&](std::size_t count, double capacity) {
    std::vector<ResourceId> links;
    for (std::size_t i = 0; i < count; ++i) links.push_back(graph.add_resource(capacity));
    return links;
  };
  const std::size_t leaves = gpus / kGpusPerLeaf;
  const auto up = add_links(gpus, 25e9), down = add_links(gpus, 25e9);
  const auto to_spine = add_links(leaves * kSpines, 50e9), from_spine = add_links(leaves * kSpines, 50e9);
  for (std::size_t i = 0; i < 4 * gpus; ++i) {
    const std::size_t from = i % gpus, to = random() % gpus, spine = random() % kSpines;
    std::vector<ResourceUse> route{{up[from], 1.0}, {down[to], 1.0}};
    if (from / kGpusPerLeaf != to / kGpusPerLeaf) {
      route.push_back({to_spine[from / kGpusPerLeaf * kSpines + spine], 1.0});
      route.push_back({from_spine[to / kGpusPerLeaf * kSpines + spine], 1.0});
    }
    add_flow(graph, route);
  }
  return graph;
}

void solve_repeatedly(benchmark::State& state, const TaskGraph& graph) {
  std::vector<TaskId> tasks;
  for (std::size_t i = 0; i < graph.task_count(); ++i) tasks.emplace_back(i);
  std::vector<double> rates(tasks.size());
  std::vector<ResourceId> bound_by(tasks.size());
  FairShareSolver solver(graph);
  for (auto _ : state) {
    solver.solve(tasks, rates, bound_by);
    benchmark::DoNotOptimize(rates.data());
  }
  state.counters["flows"] = static_cast<double>(tasks.size());
}

void fair_share_ring(benchmark::State& state) {
  solve_repeatedly(state, ring_traffic(static_cast<std::size_t>(state.range(0)), 2));
}
BENCHMARK(fair_share_ring)->Arg(8)->Arg(1024)->Arg(16384)->Unit(benchmark::kMicrosecond);

void fair_share_random(benchmark::State& state) {
  solve_repeatedly(state, random_traffic(static_cast<std::size_t>(state.range(0))));
}
BENCHMARK(fair_share_random)->Arg(16)->Arg(1024)->Arg(16384)->Unit(benchmark::kMicrosecond);

void simulate_repeatedly(benchmark::State& state, const TaskGraph& graph) {
  std::uint64_t events = 0;
  std::uint64_t solves = 0;
  for (auto _ : state) {
    const auto schedule = std::get<Schedule>(simulate(graph));
    events += schedule.events;
    solves += schedule.rate_solves;
  }
  state.counters["tasks"] = static_cast<double>(graph.task_count());
  state.counters["events/s"] = benchmark::Counter(static_cast<double>(events), benchmark::Counter::kIsRate);
  state.counters["solves"] = benchmark::Counter(static_cast<double>(solves), benchmark::Counter::kAvgIterations);
}

void simulate_pipeline(benchmark::State& state) {
  simulate_repeatedly(state, test::make_pipeline(test::PipelineSchedule::one_forward_one_backward, 16, 192,
                                                 Time{1'000'000'000}, Time{2'000'000'000}, 1e7));
}
BENCHMARK(simulate_pipeline)->Unit(benchmark::kMillisecond);

// 200 000 tasks: chains on 16 streams, each task waiting for one of the stream before.
void simulate_chains(benchmark::State& state) {
  constexpr std::size_t kStreams = 16, kLength = 12'500;
  TaskGraph graph;
  std::vector<TaskId> before;
  for (std::size_t s = 0; s < kStreams; ++s) {
    const auto stream = graph.add_stream();
    const std::vector<ResourceUse> own{{graph.add_resource(1.0), 1.0}};
    const auto cost = graph.add_cost(Time{5'000'000}, 1e-3 * static_cast<double>(1 + s % 3), 1.0, own);
    std::vector<TaskId> tasks;
    for (std::size_t i = 0; i < kLength; ++i) {
      tasks.push_back(graph.add_task(cost));
      graph.enqueue(stream, tasks.back());
      if (s > 0) graph.add_dependency(before[i], tasks.back());
    }
    before = std::move(tasks);
  }
  simulate_repeatedly(state, graph);
}
BENCHMARK(simulate_chains)->Unit(benchmark::kMillisecond);

// 64 streams whose transfers all meet on one link, so that every event changes all rates.
void simulate_contention(benchmark::State& state) {
  TaskGraph graph;
  const auto link = graph.add_resource(50e9);
  for (std::size_t s = 0; s < 64; ++s) {
    const auto stream = graph.add_stream();
    const std::vector<ResourceUse> route{{graph.add_resource(25e9), 1.0}, {link, 1.0}};
    const auto cost = graph.add_cost(Time{1'000'000}, 1e6 * static_cast<double>(s + 7), kNoCap, route);
    for (std::size_t i = 0; i < 200; ++i) graph.enqueue(stream, graph.add_task(cost));
  }
  simulate_repeatedly(state, graph);
}
BENCHMARK(simulate_contention)->Unit(benchmark::kMillisecond);

}  // namespace
