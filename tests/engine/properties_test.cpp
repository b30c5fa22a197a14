#include <map>

#include "tests/engine/random_graph.h"

using namespace foretrain;
using namespace foretrain::engine;
using test::Random;
using test::RandomGraph;
using test::run;

TEST_CASE("at every event rates are max-min fair, capacities hold, and no work is lost") {
  Random random(31);
  std::size_t instants = 0;
  std::size_t shared = 0;
  for (int round = 0; round < 400; ++round) {
    const TaskGraph graph = RandomGraph(random, 5 + random.below(80)).build();
    std::vector<double> done(graph.task_count());
    std::vector<double> rounding(graph.task_count());  // a completion may be up to 1 ps late
    std::vector<ActiveTask> before;
    Time last;
    Options options;
    options.observer = [&](Time now, std::span<const ActiveTask> active) {
      for (const ActiveTask& task : before) {
        done[task.task.index()] += task.rate * (now - last).seconds();
        rounding[task.task.index()] = std::max(rounding[task.task.index()], task.rate * 2e-12);
      }
      before.assign(active.begin(), active.end());
      last = now;
      ++instants;
      shared += active.size() > 1 ? 1 : 0;
      REQUIRE(test::is_max_min_fair(graph, active));
    };
    run(graph, options);
    for (std::size_t i = 0; i < graph.task_count(); ++i) {
      const Cost& cost = graph.cost(graph.cost_of(TaskId(i)));
      if (cost.use_count == 0 || cost.work == 0.0) continue;  // never in the work set
      REQUIRE(done[i] >= cost.work * (1.0 - 1e-9));
      REQUIRE(done[i] <= cost.work * (1.0 + 1e-9) + rounding[i]);
    }
  }
  CHECK(instants > 20'000);
  CHECK(shared > 5'000);
}

TEST_CASE("tasks start after all they wait for, at the instant the last of those ends") {
  Random random(32);
  for (int round = 0; round < 300; ++round) {
    const RandomGraph parts(random, 5 + random.below(100));
    const Schedule schedule = run(parts.build());
    std::vector<std::vector<std::size_t>> waits_for(parts.tasks.size());
    for (const auto& [before, after] : parts.dependencies) waits_for[after].push_back(before);
    std::map<std::size_t, std::size_t> last_on_stream;
    for (std::size_t i = 0; i < parts.tasks.size(); ++i) {
      for (const std::size_t stream : parts.tasks[i].streams) {
        if (const auto found = last_on_stream.find(stream); found != last_on_stream.end()) {
          waits_for[i].push_back(found->second);
        }
        last_on_stream[stream] = i;
      }
    }
    Time latest_end;
    for (std::size_t i = 0; i < parts.tasks.size(); ++i) {
      Time ready;
      TaskId releaser;
      std::sort(waits_for[i].begin(), waits_for[i].end());
      for (const std::size_t before : waits_for[i]) {
        if (schedule.end[before] > ready) {
          ready = schedule.end[before];
          releaser = TaskId(before);
        }
      }
      REQUIRE(schedule.start[i] == ready);
      REQUIRE(schedule.released_by[i] == releaser);
      REQUIRE(schedule.end[i] >= schedule.start[i] + parts.tasks[i].latency);
      latest_end = std::max(latest_end, schedule.end[i]);
    }
    REQUIRE(schedule.makespan == latest_end);
  }
}

TEST_CASE("the order in which dependencies and uses are added does not show") {
  Random random(33);
  for (int round = 0; round < 200; ++round) {
    RandomGraph parts(random, 60);
    const Schedule schedule = run(parts.build());
    random.shuffle(parts.dependencies);
    for (auto& task : parts.tasks) {
      random.shuffle(task.streams);
      std::reverse(task.uses.begin(), task.uses.end());
    }
    const Schedule again = run(parts.build());
    REQUIRE(again.fingerprint == schedule.fingerprint);
    REQUIRE(again.start == schedule.start);
    REQUIRE(again.end == schedule.end);
    REQUIRE(again.released_by == schedule.released_by);
    REQUIRE(again.bound_by == schedule.bound_by);
    REQUIRE(again.events == schedule.events);
  }
}

TEST_CASE("an observer sees and changes nothing") {
  Random random(34);
  const TaskGraph graph = RandomGraph(random, 200).build();
  Options options;
  std::size_t calls = 0;
  options.observer = [&](Time, std::span<const ActiveTask>) { ++calls; };
  CHECK(run(graph, options).fingerprint == run(graph).fingerprint);
  CHECK(calls > 100);
}

TEST_CASE("rates depend on which tasks are active, not on the order in which they came") {
  Random random(40);
  std::vector<double> uses;
  uses.reserve(30);
  for (int i = 0; i < 30; ++i) uses.push_back(random.uniform());
  std::vector<std::int64_t> latencies;
  latencies.reserve(30);
  for (int i = 0; i < 30; ++i) latencies.push_back(1 + 10 * i);
  std::vector<std::vector<double>> seen;
  for (int round = 0; round < 20; ++round) {
    TaskGraph graph;
    const auto a = graph.add_resource(1e9), b = graph.add_resource(1.1e9);
    for (std::size_t i = 0; i < uses.size(); ++i) {
      test::add_task(graph, Time{latencies[i]}, 1e9, 1e12, {{a, uses[i]}, {b, 1.0 - uses[i]}});
    }
    Options options;
    std::vector<double> rates;
    options.observer = [&](Time, std::span<const ActiveTask> active) {
      if (active.size() < uses.size()) return;
      for (const ActiveTask& task : active) rates.push_back(task.rate);
    };
    run(graph, options);
    REQUIRE(rates.size() == uses.size());
    seen.push_back(rates);
    random.shuffle(latencies);
  }
  for (const auto& rates : seen) CHECK(rates == seen.front());
}

TEST_CASE("the fingerprint tells runs apart") {
  Random random(35);
  RandomGraph parts(random, 50);
  const auto fingerprint = run(parts.build()).fingerprint;
  parts.tasks[10].latency += Time{1};
  CHECK(run(parts.build()).fingerprint != fingerprint);
}

TEST_CASE("adding tasks that do nothing or share nothing changes no other task by a picosecond") {
  Random random(36);
  for (int round = 0; round < 200; ++round) {
    RandomGraph parts(random, 60);
    const Schedule schedule = run(parts.build());
    const std::size_t own = parts.capacities.size();
    parts.capacities.push_back(1e9);
    for (int i = 0; i < 5; ++i) {
      parts.tasks.push_back({Time::zero(), 0.0, 1.0, {}, {}});
      parts.dependencies.emplace_back(random.below(60), parts.tasks.size() - 1);
      parts.tasks.push_back({Time{3}, random.magnitude(1e3, 1e7), 1e12, {{ResourceId(own), 1.0}}, {}});
      parts.dependencies.emplace_back(random.below(60), parts.tasks.size() - 1);
    }
    const Schedule more = run(parts.build());
    for (std::size_t i = 0; i < 60; ++i) {
      REQUIRE(more.start[i] == schedule.start[i]);
      REQUIRE(more.end[i] == schedule.end[i]);
    }
  }
}

TEST_CASE("one resource split in series is the same resource") {
  Random random(37);
  for (int round = 0; round < 200; ++round) {
    RandomGraph parts(random, 60);
    const Schedule schedule = run(parts.build());
    const ResourceId twin(parts.capacities.size());
    parts.capacities.push_back(parts.capacities[0]);
    for (auto& task : parts.tasks) {
      const auto uses = task.uses;
      for (const auto& use : uses) {
        if (use.resource.index() == 0) task.uses.push_back({twin, use.per_unit});
      }
    }
    const Schedule split = run(parts.build());
    REQUIRE(split.end == schedule.end);
    REQUIRE(split.bound_by == schedule.bound_by);
  }
}

TEST_CASE("halving all rates doubles all times exactly when picoseconds do not round") {
  // Work in multiples of 2^20 at power-of-two capacities and fan-outs: every completion is a whole picosecond.
  Random random(38);
  for (int round = 0; round < 100; ++round) {
    TaskGraph base, slow;
    for (TaskGraph* graph : {&base, &slow}) {
      const double scale = graph == &base ? 1e12 : 0.5e12;
      Random same(static_cast<std::uint64_t>(round));
      const auto stream = graph->add_stream();
      for (int i = 0; i < 6; ++i) graph->add_resource(scale * std::exp2(static_cast<double>(same.below(3))));
      for (int i = 0; i < 20; ++i) {
        // Pairs of equal transfers on a shared resource start and end together.
        const auto link = ResourceId(same.below(6));
        const auto barrier = test::add_task(*graph, Time::zero(), 0.0, 1.0);
        const double work = 0x1p20 * static_cast<double>(1 + same.below(9));
        const auto cost = graph->add_cost(Time::zero(), work, scale * 2, std::vector<ResourceUse>{{link, 1.0}});
        const auto a = graph->add_task(cost), b = graph->add_task(cost);
        graph->enqueue(stream, barrier);
        const auto join = test::add_task(*graph, Time::zero(), 0.0, 1.0);
        for (const auto task : {a, b}) {
          graph->add_dependency(barrier, task);
          graph->add_dependency(task, join);
        }
        graph->enqueue(stream, join);
      }
    }
    const Schedule fast = run(base), half = run(slow);
    for (std::size_t i = 0; i < base.task_count(); ++i) REQUIRE(half.end[i].ps == 2 * fast.end[i].ps);
  }
}

TEST_CASE("n equal transfers through one link take n times as long as one, at once or one after another") {
  for (const std::size_t n : {1U, 2U, 7U, 64U, 1000U}) {
    TaskGraph at_once, in_turn;
    for (TaskGraph* graph : {&at_once, &in_turn}) {
      const auto link = graph->add_resource(50e9);
      const auto stream = graph->add_stream();
      const auto cost = graph->add_cost(Time::zero(), 50e6, std::numeric_limits<double>::infinity(),
                                        std::vector<ResourceUse>{{link, 1.0}});
      for (std::size_t i = 0; i < n; ++i) {
        const auto task = graph->add_task(cost);
        if (graph == &in_turn) graph->enqueue(stream, task);
      }
    }
    const auto whole = static_cast<std::int64_t>(n) * 1'000'000'000;
    CHECK(run(in_turn).makespan == Time{whole});
    const Schedule shared = run(at_once);
    CHECK(std::abs(shared.makespan.ps - whole) <= 1);
    CHECK(shared.rate_solves == (n > 1 ? 1 : 0));  // all end in one instant
  }
}

TEST_CASE("a hundred rings of a data-parallel group do not disturb each other") {
  // Each ring uses its own links: its groups are solved apart and equal rings end at the same picosecond.
  TaskGraph graph;
  for (int ring = 0; ring < 100; ++ring) {
    std::vector<ResourceUse> uses;
    uses.reserve(8);
    for (int i = 0; i < 8; ++i) uses.push_back({graph.add_resource(25e9), 1.75});
    test::add_task(graph, Time{1000}, 1e8, 1e12, uses);
    test::add_task(graph, Time{1000}, 1e8, 1e12, {uses[0]});
  }
  const Schedule schedule = run(graph);
  for (std::size_t i = 2; i < graph.task_count(); ++i) REQUIRE(schedule.end[i] == schedule.end[i % 2]);
}

TEST_CASE("a simulation that is given up at some time is one that takes longer") {
  Random random(77);
  for (int graphs = 0; graphs < 50; ++graphs) {
    const TaskGraph graph = RandomGraph(random, 5 + random.below(80)).build();
    const Schedule whole = run(graph);
    const Schedule in_time = run(graph, {.until = whole.makespan});
    CHECK(in_time.fingerprint == whole.fingerprint);
    if (whole.makespan == Time::zero()) continue;
    const Time before{static_cast<std::int64_t>(random.below(static_cast<std::size_t>(whole.makespan.ps)))};
    CHECK(std::holds_alternative<Late>(simulate(graph, {.until = before})));
  }
}
