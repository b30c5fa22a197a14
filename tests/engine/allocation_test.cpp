#include <atomic>
#include <cstdlib>
#include <new>

#include "tests/engine/pipelines.h"
#include "tests/engine/support.h"

namespace {
std::atomic<std::size_t> allocation_count = 0;

void* counted_allocation(std::size_t size) {
  ++allocation_count;
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
}  // namespace

void* operator new(std::size_t size) { return counted_allocation(size); }
void* operator new[](std::size_t size) { return counted_allocation(size); }
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  ++allocation_count;
  return std::malloc(size == 0 ? 1 : size);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

using namespace foretrain;
using namespace foretrain::engine;

namespace {

std::size_t allocations_of(const TaskGraph& graph) {
  const std::size_t before = allocation_count;
  const Schedule schedule = test::run(graph);
  return allocation_count - before;
}

// Rounds of transfers that contend for one link, `width` at a time.
TaskGraph contending(std::size_t rounds, std::size_t width) {
  TaskGraph graph;
  const auto link = graph.add_resource(1e9);
  std::vector<CostId> costs;
  for (std::size_t i = 0; i < width; ++i) {
    const auto own = graph.add_resource(1e9);
    const std::vector<ResourceUse> uses{{link, 1.0}, {own, 1.0}};
    costs.push_back(graph.add_cost(Time{1'000}, 1e3 * static_cast<double>(i + 1), 1e12, uses));
  }
  for (const CostId cost : costs) {
    const auto stream = graph.add_stream();
    for (std::size_t i = 0; i < rounds; ++i) graph.enqueue(stream, graph.add_task(cost));
  }
  return graph;
}

}  // namespace

TEST_CASE("the event loop allocates nothing: a longer run makes as many allocations as a short one") {
  const auto pipeline = [](std::size_t micro_batches) {
    return allocations_of(test::make_pipeline(test::PipelineSchedule::one_forward_one_backward, 8, micro_batches,
                                              Time{1'000'000}, Time{2'000'000}, 1e5));
  };
  CHECK(pipeline(4096) == pipeline(32));
  CHECK(allocations_of(contending(4000, 24)) == allocations_of(contending(40, 24)));
  CHECK(pipeline(32) < 100);
  CHECK(test::run(contending(40, 24)).rate_solves > 500);  // they did contend
}
