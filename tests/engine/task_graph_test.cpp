#include "sim/engine/task_graph.h"

#include <limits>
#include <stdexcept>

#include "tests/engine/support.h"

using namespace foretrain;
using namespace foretrain::engine;

TEST_CASE("uses of one resource are added up and unused resources are dropped") {
  TaskGraph graph;
  const auto a = graph.add_resource(1.0), b = graph.add_resource(1.0), c = graph.add_resource(1.0);
  const std::vector<ResourceUse> uses{{c, 2.0}, {a, 1.0}, {c, 3.0}, {b, 0.0}, {a, 0.5}};
  const auto other = graph.add_cost(Time::zero(), 1.0, 1.0, {});
  const Cost& cost = graph.cost(graph.add_cost(Time::zero(), 1.0, 1.0, uses));
  REQUIRE(graph.uses(cost).size() == 2);
  CHECK(graph.uses(cost)[0].resource == a);
  CHECK(graph.uses(cost)[0].per_unit == 1.5);
  CHECK(graph.uses(cost)[1].resource == c);
  CHECK(graph.uses(cost)[1].per_unit == 5.0);
  CHECK(graph.uses(graph.cost(other)).empty());
}

TEST_CASE("impossible values and unknown ids are faults") {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  TaskGraph graph;
  for (const double capacity : {0.0, -1.0, kNan, kInfinity}) {
    CHECK_THROWS_AS(graph.add_resource(capacity), std::invalid_argument);
  }
  const auto link = graph.add_resource(1.0);
  CHECK_THROWS_AS(graph.add_cost(Time{-1}, 1.0, 1.0, {}), std::invalid_argument);
  for (const double work : {-1.0, kNan, kInfinity}) {
    CHECK_THROWS_AS(graph.add_cost(Time::zero(), work, 1.0, {}), std::invalid_argument);
  }
  for (const double cap : {0.0, -1.0, kNan}) {
    CHECK_THROWS_AS(graph.add_cost(Time::zero(), 1.0, cap, {}), std::invalid_argument);
  }
  for (const double per_unit : {-1.0, kNan, kInfinity}) {
    CHECK_THROWS_AS(graph.add_cost(Time::zero(), 1.0, 1.0, std::vector<ResourceUse>{{link, per_unit}}),
                    std::invalid_argument);
  }
  CHECK_THROWS_AS(graph.add_cost(Time::zero(), 1.0, 1.0, std::vector<ResourceUse>{{ResourceId(7), 1.0}}),
                  std::invalid_argument);
  CHECK_THROWS_AS(graph.add_cost(Time::zero(), 1.0, kInfinity, {}), std::invalid_argument);
  CHECK_NOTHROW(graph.add_cost(Time::zero(), 0.0, kInfinity, {}));
  CHECK_NOTHROW(graph.add_cost(Time::zero(), 1.0, kInfinity, std::vector<ResourceUse>{{link, 1.0}}));
  CHECK_THROWS_AS(graph.add_task(CostId(9)), std::invalid_argument);
  const auto task = test::add_task(graph, Time{1}, 0.0, 1.0);
  CHECK_THROWS_AS(graph.add_dependency(task, TaskId(9)), std::invalid_argument);
  CHECK_THROWS_AS(graph.enqueue(StreamId(0), task), std::invalid_argument);
  CHECK(graph.dependencies().empty());
}
