#include "sim/engine/fair_share.h"

#include <numeric>

#include "tests/engine/support.h"

using namespace foretrain;
using namespace foretrain::engine;
using test::kNoCap;
using test::Random;

namespace {

struct Solution {
  std::vector<double> rates;
  std::vector<ResourceId> bound_by;
};

std::vector<TaskId> all_tasks(const TaskGraph& graph) {
  std::vector<TaskId> tasks;
  for (std::size_t i = 0; i < graph.task_count(); ++i) tasks.emplace_back(i);
  return tasks;
}

Solution solve(const TaskGraph& graph, const std::vector<TaskId>& tasks) {
  Solution solution{std::vector<double>(tasks.size()), std::vector<ResourceId>(tasks.size())};
  FairShareSolver(graph).solve(tasks, solution.rates, solution.bound_by);
  return solution;
}
Solution solve(const TaskGraph& graph) { return solve(graph, all_tasks(graph)); }

TaskId add_flow(TaskGraph& graph, const std::vector<ResourceId>& route, double cap = kNoCap) {
  std::vector<ResourceUse> uses;
  uses.reserve(route.size());
  for (const ResourceId link : route) uses.push_back({link, 1.0});
  return test::add_task(graph, Time::zero(), 1.0, cap, uses);
}

bool is_fair(const TaskGraph& graph, const std::vector<TaskId>& tasks, const Solution& solution) {
  std::vector<ActiveTask> active;
  for (std::size_t i = 0; i < tasks.size(); ++i) active.push_back({tasks[i], solution.rates[i]});
  return test::is_max_min_fair(graph, active);
}

// What a random network is made of; `scale` multiplies all rates.
struct RandomNetwork {
  std::vector<double> capacities;
  std::vector<std::vector<ResourceUse>> uses;
  std::vector<double> caps;

  RandomNetwork(Random& random, std::size_t resources, std::size_t tasks, bool plain) {
    for (std::size_t i = 0; i < resources; ++i) {
      capacities.push_back(plain ? 1e9 * static_cast<double>(1 + random.below(4)) : random.magnitude(1e3, 1e13));
    }
    for (std::size_t i = 0; i < tasks; ++i) {
      std::vector<ResourceUse> task_uses;
      for (std::size_t k = 0; k < 1 + random.below(std::min<std::size_t>(resources, 5)); ++k) {
        task_uses.push_back({ResourceId(random.below(resources)), plain ? 1.0 : random.magnitude(1e-3, 1e3)});
      }
      uses.push_back(std::move(task_uses));
      caps.push_back(random.chance(0.3) ? random.magnitude(1e3, 1e10) : kNoCap);
    }
  }

  TaskGraph graph(double scale = 1.0) const {
    TaskGraph result;
    for (const double capacity : capacities) result.add_resource(capacity * scale);
    for (std::size_t i = 0; i < uses.size(); ++i) {
      test::add_task(result, Time::zero(), 1.0, caps[i] * scale, uses[i]);
    }
    return result;
  }
};

}  // namespace

TEST_CASE("one link is shared equally, and a capped task leaves its part to the others") {
  TaskGraph graph;
  const auto link = graph.add_resource(90.0);
  for (int i = 0; i < 3; ++i) add_flow(graph, {link});
  CHECK(solve(graph).rates == std::vector{30.0, 30.0, 30.0});
  add_flow(graph, {link}, 6.0);
  const Solution capped = solve(graph);
  CHECK(capped.rates == std::vector{28.0, 28.0, 28.0, 6.0});
  CHECK(capped.bound_by == std::vector{link, link, link, ResourceId()});
}

TEST_CASE("a chain runs at its narrowest link") {
  TaskGraph graph;
  const auto wide = graph.add_resource(100.0), narrow = graph.add_resource(10.0);
  add_flow(graph, {wide, narrow});
  add_flow(graph, {wide});
  const Solution solution = solve(graph);
  CHECK(solution.rates == std::vector{10.0, 90.0});
  CHECK(solution.bound_by == std::vector{narrow, wide});
}

TEST_CASE("star incast: n senders share the receiver's link") {
  TaskGraph graph;
  const auto receiver = graph.add_resource(100.0);
  for (int i = 0; i < 8; ++i) add_flow(graph, {graph.add_resource(100.0), receiver});
  const Solution solution = solve(graph);
  CHECK(solution.rates == std::vector<double>(8, 12.5));
  CHECK(std::count(solution.bound_by.begin(), solution.bound_by.end(), receiver) == 8);
}

TEST_CASE("parking lot: the long flow gets what is left on its most crowded link") {
  TaskGraph graph;
  std::vector<ResourceId> links;
  links.reserve(4);
  for (int i = 0; i < 4; ++i) links.push_back(graph.add_resource(12.0));
  add_flow(graph, links);
  for (std::size_t i = 0; i < 4; ++i) {
    for (std::size_t k = 0; k < i; ++k) add_flow(graph, {links[i]});
  }
  // Link i carries the long flow and i others.
  CHECK(solve(graph).rates == std::vector{3.0, 9.0, 4.5, 4.5, 3.0, 3.0, 3.0});
}

TEST_CASE("a task that uses a resource in part takes that part of the share") {
  // Kernel: all SMs per unit of work. Communication kernel: a tenth of them per unit; its link caps it.
  TaskGraph graph;
  const auto sms = graph.add_resource(1.0);
  test::add_task(graph, Time::zero(), 1.0, 1.0, {{sms, 1.0}});
  const auto link = graph.add_resource(1.0);
  test::add_task(graph, Time::zero(), 1.0, kNoCap, {{sms, 0.1}, {link, 1.0}});
  const Solution solution = solve(graph);
  // Equal shares s: s + 0.1 s = 1.
  CHECK(solution.rates[0] == doctest::Approx(1.0 / 1.1).epsilon(1e-14));
  CHECK(solution.rates[1] == doctest::Approx(1.0 / 1.1).epsilon(1e-14));
}

TEST_CASE("max-min optimality certificate on random networks from 1 kB/s to 10 TB/s") {
  Random random(11);
  for (int round = 0; round < 6000; ++round) {
    const bool plain = random.chance(0.5);
    const RandomNetwork network(random, 1 + random.below(30), 1 + random.below(60), plain);
    const TaskGraph graph = network.graph();
    CAPTURE(round);
    REQUIRE(is_fair(graph, all_tasks(graph), solve(graph)));
  }
}

TEST_CASE("max-min optimality certificate with thousands of levels") {
  Random random(12);
  for (const bool plain : {true, false}) {
    const TaskGraph graph = RandomNetwork(random, 3000, 20'000, plain).graph();
    CHECK(is_fair(graph, all_tasks(graph), solve(graph)));
  }
}

TEST_CASE("the certificate rejects rates that are not max-min fair") {
  TaskGraph graph;
  const auto link = graph.add_resource(10.0);
  const std::vector tasks{add_flow(graph, {link}), add_flow(graph, {link})};
  CHECK(is_fair(graph, tasks, {{5.0, 5.0}, {}}));
  CHECK_FALSE(is_fair(graph, tasks, {{4.0, 6.0}, {}}));
  CHECK_FALSE(is_fair(graph, tasks, {{4.0, 4.0}, {}}));
  CHECK_FALSE(is_fair(graph, tasks, {{6.0, 6.0}, {}}));
}

TEST_CASE("what is said to bind a task does bind it") {
  Random random(13);
  for (int round = 0; round < 500; ++round) {
    const TaskGraph graph = RandomNetwork(random, 10, 30, round % 2 == 0).graph();
    const Solution solution = solve(graph);
    std::vector<double> load(graph.resource_count());
    for (std::size_t i = 0; i < graph.task_count(); ++i) {
      for (const auto& use : graph.uses(graph.cost(graph.cost_of(TaskId(i))))) {
        load[use.resource.index()] += use.per_unit * solution.rates[i];
      }
    }
    for (std::size_t i = 0; i < graph.task_count(); ++i) {
      const Cost& cost = graph.cost(graph.cost_of(TaskId(i)));
      const ResourceId bound = solution.bound_by[i];
      if (bound.valid()) {
        REQUIRE(load[bound.index()] == doctest::Approx(graph.capacity(bound)).epsilon(1e-9));
        const auto uses = graph.uses(cost);
        REQUIRE(std::any_of(uses.begin(), uses.end(), [&](const auto& use) { return use.resource == bound; }));
      } else {
        REQUIRE(solution.rates[i] == cost.rate_cap);
      }
    }
  }
}

TEST_CASE("scaling all capacities by a power of two scales all rates exactly") {
  Random random(14);
  for (int round = 0; round < 300; ++round) {
    const RandomNetwork network(random, 12, 40, false);
    const auto rates = solve(network.graph()).rates;
    for (const double scale : {0x1p-20, 0x1p3, 0x1p30}) {
      const auto scaled = solve(network.graph(scale)).rates;
      for (std::size_t i = 0; i < rates.size(); ++i) REQUIRE(scaled[i] == rates[i] * scale);
    }
  }
}

TEST_CASE("relabelling tasks and resources relabels the rates") {
  Random random(15);
  for (int round = 0; round < 300; ++round) {
    const RandomNetwork network(random, 12, 40, round % 2 == 0);
    std::vector<std::size_t> resource_at(network.capacities.size()), task_at(network.uses.size());
    std::iota(resource_at.begin(), resource_at.end(), std::size_t{0});
    std::iota(task_at.begin(), task_at.end(), std::size_t{0});
    random.shuffle(resource_at);
    random.shuffle(task_at);
    RandomNetwork relabelled = network;
    for (std::size_t i = 0; i < resource_at.size(); ++i) {
      relabelled.capacities[resource_at[i]] = network.capacities[i];
    }
    for (std::size_t i = 0; i < task_at.size(); ++i) {
      relabelled.uses[task_at[i]] = network.uses[i];
      for (auto& use : relabelled.uses[task_at[i]]) use.resource = ResourceId(resource_at[use.resource.index()]);
      relabelled.caps[task_at[i]] = network.caps[i];
    }
    const auto rates = solve(network.graph()).rates;
    const auto other = solve(relabelled.graph()).rates;
    for (std::size_t i = 0; i < rates.size(); ++i) {
      REQUIRE(other[task_at[i]] == doctest::Approx(rates[i]).epsilon(1e-9));
    }
  }
}

TEST_CASE("splitting a link into two in series changes nothing") {
  Random random(16);
  for (int round = 0; round < 300; ++round) {
    const RandomNetwork network(random, 8, 20, round % 2 == 0);
    RandomNetwork split = network;
    split.capacities.push_back(network.capacities[0]);
    for (std::size_t i = 0; i < network.uses.size(); ++i) {
      for (const auto& use : network.uses[i]) {
        if (use.resource.index() == 0) split.uses[i].push_back({ResourceId(network.capacities.size()), use.per_unit});
      }
    }
    CHECK(solve(split.graph()).rates == solve(network.graph()).rates);
  }
}

TEST_CASE("a solver used again gives what a fresh one gives") {
  Random random(17);
  const TaskGraph graph = RandomNetwork(random, 20, 60, false).graph();
  FairShareSolver solver(graph);
  for (int round = 0; round < 200; ++round) {
    std::vector<TaskId> tasks;
    for (std::size_t i = 0; i < graph.task_count(); ++i) {
      if (random.chance(0.4)) tasks.emplace_back(i);
    }
    Solution solution{std::vector<double>(tasks.size()), std::vector<ResourceId>(tasks.size())};
    solver.solve(tasks, solution.rates, solution.bound_by);
    const Solution fresh = solve(graph, tasks);
    REQUIRE(solution.rates == fresh.rates);
    REQUIRE(solution.bound_by == fresh.bound_by);
  }
}
