#include "sim/engine/simulation.h"

#include <stdexcept>

#include "tests/engine/support.h"

using namespace foretrain;
using namespace foretrain::engine;
using test::add_task;
using test::kNoCap;
using test::run;

TEST_CASE("no tasks take no time") {
  const Schedule schedule = run(TaskGraph());
  CHECK(schedule.makespan == Time::zero());
  CHECK(schedule.events == 0);
}

TEST_CASE("a task lasts its latency and its work over its rate, rounded up once") {
  TaskGraph graph;
  const auto link = graph.add_resource(3.0e12);
  const auto plain = add_task(graph, Time{5}, 2.0, 1.0);                        // 2 s
  const auto transfer = add_task(graph, Time{7}, 10.0, kNoCap, {{link, 1.0}});  // 10/3 ps
  const auto instant = add_task(graph, Time{9}, 0.0, 1.0);
  const auto tiny = add_task(graph, Time{11}, 1e-300, 1e300);    // less than any double
  const auto decimal = add_task(graph, Time::zero(), 1.1, 1.0);  // 1.1 * 1e12 is a little above 11e11 in doubles
  const Schedule schedule = run(graph);
  CHECK(schedule.end[plain.index()] == Time{5 + 2'000'000'000'000});
  CHECK(schedule.end[transfer.index()] == Time{7 + 4});
  CHECK(schedule.end[instant.index()] == Time{9});
  CHECK(schedule.end[tiny.index()] == Time{12});
  CHECK(schedule.end[decimal.index()] == Time{1'100'000'000'000});
  CHECK(schedule.makespan == schedule.end[plain.index()]);
}

TEST_CASE("equal work lasts equally long whenever it starts") {
  TaskGraph graph;
  const auto link = graph.add_resource(7.0e9);
  const auto stream = graph.add_stream();
  const auto cost = graph.add_cost(Time{13}, 12'345.0, kNoCap, std::vector<ResourceUse>{{link, 1.0}});
  for (int i = 0; i < 1000; ++i) graph.enqueue(stream, graph.add_task(cost));
  const Schedule schedule = run(graph);
  const Time first = schedule.end[0];
  for (std::size_t i = 0; i < 1000; ++i) REQUIRE(schedule.end[i] - schedule.start[i] == first);
  CHECK(schedule.makespan == first * 1000);
  CHECK(schedule.rate_solves == 0);
}

TEST_CASE("two transfers share a link and each leaves it to the other") {
  TaskGraph graph;
  const auto link = graph.add_resource(100.0);
  const auto small = add_task(graph, Time::zero(), 100.0, kNoCap, {{link, 1.0}});
  const auto large = add_task(graph, Time::zero(), 300.0, kNoCap, {{link, 1.0}});
  const auto late = add_task(graph, Time::from_seconds(10.0), 100.0, kNoCap, {{link, 1.0}});
  const Schedule schedule = run(graph);
  CHECK(schedule.end[small.index()] == Time::from_seconds(2.0));  // at 50 each
  CHECK(schedule.end[large.index()] == Time::from_seconds(4.0));  // the last 200 at 100
  CHECK(schedule.end[late.index()] == Time::from_seconds(11.0));
  CHECK(schedule.rate_solves == 1);
  CHECK(schedule.bound_by[large.index()] == link);
}

TEST_CASE("a latency loads nothing") {
  TaskGraph graph;
  const auto link = graph.add_resource(100.0);
  const auto first = add_task(graph, Time::zero(), 100.0, kNoCap, {{link, 1.0}});
  const auto second = add_task(graph, Time::from_seconds(1.0), 100.0, kNoCap, {{link, 1.0}});
  const Schedule schedule = run(graph);
  CHECK(schedule.end[first.index()] == Time::from_seconds(1.0));
  CHECK(schedule.end[second.index()] == Time::from_seconds(2.0));
}

TEST_CASE("what bound a task for most of its work is reported") {
  TaskGraph graph;
  const auto nic = graph.add_resource(100.0), core = graph.add_resource(100.0);
  // Bound by the core for 150 of 1000 bytes (while the other runs), by its NIC for the rest.
  const auto mostly_nic = add_task(graph, Time::zero(), 1000.0, kNoCap, {{nic, 1.0}, {core, 0.5}});
  const auto other = add_task(graph, Time::zero(), 150.0, kNoCap, {{core, 1.0}});
  const auto capped = add_task(graph, Time::zero(), 10.0, 1.0, {{graph.add_resource(2.0), 1.0}});
  const Schedule schedule = run(graph);
  CHECK(schedule.bound_by[mostly_nic.index()] == nic);
  CHECK(schedule.bound_by[other.index()] == core);
  CHECK_FALSE(schedule.bound_by[capped.index()].valid());
}

TEST_CASE("what bound a task at its end does not hide what bound it before") {
  TaskGraph graph;
  const auto nic = graph.add_resource(100.0), core = graph.add_resource(120.0);
  // 60 bytes/s while the other runs (480 bytes, 8 s), then 100 bytes/s for the last 120 bytes.
  const auto mostly_core = add_task(graph, Time::zero(), 600.0, kNoCap, {{nic, 1.0}, {core, 1.0}});
  const auto other = add_task(graph, Time::zero(), 480.0, kNoCap, {{core, 1.0}});
  const Schedule schedule = run(graph);
  CHECK(schedule.end[other.index()] == Time::from_seconds(8.0));
  CHECK(schedule.end[mostly_core.index()] == Time::from_seconds(9.2));
  CHECK(schedule.bound_by[mostly_core.index()] == core);
}

TEST_CASE("tasks that fit side by side on a resource need no solve and run as if alone") {
  TaskGraph graph;
  const auto sms = graph.add_resource(1.0);
  const auto kernel = add_task(graph, Time::zero(), 1.0, 1.0, {{sms, 0.9}});
  const auto link = graph.add_resource(50e9);
  const auto send = add_task(graph, Time::zero(), 25e9, kNoCap, {{link, 1.0}, {sms, 0.1 / 50e9}});
  const Schedule schedule = run(graph);
  CHECK(schedule.end[kernel.index()] == Time::from_seconds(1.0));
  CHECK(schedule.end[send.index()] == Time::from_seconds(0.5));
  CHECK(schedule.rate_solves == 0);
}

TEST_CASE("a resource with room to spare does not tie its users together") {
  // A fat core carries two pairs; each pair contends on its own link, so four tasks make two groups of two.
  TaskGraph graph;
  const auto core = graph.add_resource(1e12);
  for (int pair = 0; pair < 2; ++pair) {
    const auto link = graph.add_resource(1e9);
    for (int i = 0; i < 2; ++i) {
      add_task(graph, Time{1000} * pair, 1e6 * (i + 1), kNoCap, {{link, 1.0}, {core, 1.0}});
    }
  }
  std::size_t instants = 0;
  Options options;
  options.observer = [&](Time, std::span<const ActiveTask>) { ++instants; };
  CHECK(run(graph, options).rate_solves == 2);  // at each pair's arrival; no one else is touched
  CHECK(instants > 4);
}

TEST_CASE("a completion does not move when only what binds the task changes") {
  for (int i = 1; i <= 200; ++i) {
    TaskGraph graph;
    const auto second = graph.add_resource(10e9), first = graph.add_resource(10e9);
    const double work = 0.005 * (1'000'003 * i);  // whole picoseconds at 5e9/s, so that any residue would show
    const auto watched = add_task(graph, Time::zero(), work, kNoCap, {{first, 1.0}, {second, 1.0}});
    add_task(graph, Time::zero(), 1e12, kNoCap, {{first, 1.0}});
    const Time alone = run(graph).end[watched.index()];
    // Loads `second` just as much as `first` is; the lower id is then said to bind.
    add_task(graph, alone - Time{3}, 1e12, kNoCap, {{second, 1.0}});
    const Schedule schedule = run(graph);
    REQUIRE(schedule.end[watched.index()] == alone);
    REQUIRE(schedule.bound_by[watched.index()] == first);
  }
}

TEST_CASE("a stream runs its tasks in the order they were issued") {
  TaskGraph graph;
  const auto stream = graph.add_stream();
  const auto slow = add_task(graph, Time{100}, 0.0, 1.0);
  const auto first = add_task(graph, Time{10}, 0.0, 1.0);
  const auto second = add_task(graph, Time{10}, 0.0, 1.0);
  graph.add_dependency(slow, first);
  graph.enqueue(stream, first);
  graph.enqueue(stream, second);  // ready at once, but behind `first`
  const Schedule schedule = run(graph);
  CHECK(schedule.start[first.index()] == Time{100});
  CHECK(schedule.start[second.index()] == Time{110});
  CHECK(schedule.released_by[first.index()] == slow);
  CHECK(schedule.released_by[second.index()] == first);
  CHECK_FALSE(schedule.released_by[slow.index()].valid());
}

TEST_CASE("a collective starts when its last member arrives and holds all members' streams") {
  TaskGraph graph;
  std::vector<StreamId> streams;
  std::vector<TaskId> before, after;
  for (int rank = 0; rank < 4; ++rank) {
    streams.push_back(graph.add_stream());
    before.push_back(add_task(graph, Time{10} * (rank + 1), 0.0, 1.0));
    graph.enqueue(streams.back(), before.back());
  }
  const auto collective = add_task(graph, Time{5}, 0.0, 1.0);
  for (const auto stream : streams) graph.enqueue(stream, collective);
  for (const auto stream : streams) {
    after.push_back(add_task(graph, Time{1}, 0.0, 1.0));
    graph.enqueue(stream, after.back());
  }
  const Schedule schedule = run(graph);
  CHECK(schedule.start[collective.index()] == Time{40});
  CHECK(schedule.released_by[collective.index()] == before[3]);
  for (const auto task : after) CHECK(schedule.start[task.index()] == Time{45});
}

TEST_CASE("tasks that take no time pass within an instant") {
  TaskGraph graph;
  const auto zero = graph.add_cost(Time::zero(), 0.0, 1.0, {});
  const auto work = add_task(graph, Time{10}, 0.0, 1.0);
  TaskId previous = work;
  for (int i = 0; i < 1000; ++i) {
    const auto task = graph.add_task(zero);
    graph.add_dependency(previous, task);
    previous = task;
  }
  const auto last = add_task(graph, Time{1}, 0.0, 1.0);
  graph.add_dependency(previous, last);
  const Schedule schedule = run(graph);
  CHECK(schedule.makespan == Time{11});
  CHECK(schedule.released_by[last.index()] == previous);
}

TEST_CASE("a task with several simultaneous releasers names the lowest") {
  TaskGraph graph;
  const auto cost = graph.add_cost(Time{10}, 0.0, 1.0, {});
  const auto a = graph.add_task(cost), b = graph.add_task(cost), c = graph.add_task(cost);
  graph.add_dependency(b, c);
  graph.add_dependency(a, c);
  CHECK(run(graph).released_by[c.index()] == a);
}

TEST_CASE("a releaser that takes no time counts like one that ends in the same instant") {
  TaskGraph graph;
  const auto last = add_task(graph, Time::zero(), 0.0, 1.0);
  const auto work = add_task(graph, Time{10}, 0.0, 1.0);
  const auto both = add_task(graph, Time{10}, 0.0, 1.0);
  graph.add_dependency(work, last);
  graph.add_dependency(work, both);
  graph.add_dependency(last, both);
  CHECK(run(graph).released_by[both.index()] == last);
}

TEST_CASE("time that would overflow is refused") {
  TaskGraph graph;
  add_task(graph, Time::zero(), 1e30, 1.0);
  CHECK_THROWS_AS(simulate(graph), std::overflow_error);

  TaskGraph latencies;
  const auto stream = latencies.add_stream();
  const auto year = latencies.add_cost(Time{std::int64_t{3} << 60}, 0.0, 1.0, {});
  for (int i = 0; i < 2; ++i) latencies.enqueue(stream, latencies.add_task(year));
  CHECK_THROWS_AS(simulate(latencies), std::overflow_error);

  TaskGraph starved;
  const auto link = starved.add_resource(1e-300);
  add_task(starved, Time::zero(), 1e300, kNoCap, {{link, 1.0}});
  CHECK_THROWS_AS(simulate(starved), std::overflow_error);

  TaskGraph longest;
  add_task(longest, Time::max(), 1.0, 1.0);
  CHECK_THROWS_AS(simulate(longest), std::overflow_error);
}

TEST_CASE("the fingerprint is the same on every compiler and machine") {
  // Contending transfers with fractional uses: rates that are not exact in binary.
  TaskGraph graph;
  const auto link = graph.add_resource(3e9), core = graph.add_resource(7e9);
  for (int s = 0; s < 5; ++s) {
    const auto stream = graph.add_stream();
    const auto cost = graph.add_cost(Time{1000} * s, 1e6 * (s + 3), 2.9e9,
                                     std::vector<ResourceUse>{{link, 1.0}, {core, 0.3 * (s + 1)}});
    for (int i = 0; i < 50; ++i) graph.enqueue(stream, graph.add_task(cost));
  }
  const Schedule schedule = run(graph);
  CHECK(schedule.makespan.ps == 417'931'097'037);
  CHECK(schedule.fingerprint == 11'555'178'393'594'918'703U);
}
