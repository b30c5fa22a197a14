#include "sim/engine/event_queue.h"

#include <map>
#include <set>
#include <tuple>

#include "sim/engine/completion_heap.h"
#include "tests/engine/support.h"

using namespace foretrain;
using namespace foretrain::engine;
using test::Random;

TEST_CASE("events come out by time, kind and task, whatever order they went in") {
  Random random(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::pair<Time, Event>> events;
    for (std::size_t i = 0; i < 1 + random.below(100); ++i) {
      events.emplace_back(Time{1 + static_cast<std::int64_t>(random.below(8))},
                          Event{static_cast<EventKind>(random.below(3)), TaskId(random.below(10))});
    }
    EventQueue queue;
    for (const auto& [time, event] : events) queue.push(time, event);
    std::sort(events.begin(), events.end(), [](const auto& a, const auto& b) {
      return std::tuple(a.first, a.second.kind, a.second.task) < std::tuple(b.first, b.second.kind, b.second.task);
    });
    for (const auto& [time, event] : events) {
      REQUIRE(queue.next_time() == time);
      queue.advance_to(time);
      REQUIRE(queue.pop() == event);
    }
    CHECK(queue.empty());
    CHECK(queue.next_time() == Time::max());
  }
}

TEST_CASE("the queue agrees with a multiset under pushes and pops, also for the current instant") {
  // Model: (time, pushed for the present instant, order among those) -> event.
  using Key = std::tuple<std::int64_t, bool, std::uint64_t, std::uint64_t>;
  for (const std::int64_t spread : {1, 3, 50, 1'000'000}) {
    Random random(static_cast<std::uint64_t>(spread));
    EventQueue queue;
    std::multiset<Key> model;
    std::uint64_t pushes = 0;
    for (int step = 0; step < 50'000; ++step) {
      if (model.empty() || random.chance(0.52)) {
        const Time time =
            queue.now() + Time{static_cast<std::int64_t>(random.below(static_cast<std::size_t>(spread) + 1))};
        const Event event{static_cast<EventKind>(random.below(3)), TaskId(random.below(1000))};
        const bool now = time == queue.now();
        queue.push(time, event);
        model.emplace(time.ps, now, now ? ++pushes : event.order(), event.order());
      } else {
        const auto [time, now, rank, order] = *model.begin();
        model.erase(model.begin());
        REQUIRE(queue.next_time() == Time{time});
        queue.advance_to(Time{time});
        REQUIRE(queue.has_due());
        REQUIRE(queue.pop().order() == order);
      }
      REQUIRE(queue.size() == model.size());
    }
  }
}

TEST_CASE("completions come out by time and task while their times are changed") {
  Random random(7);
  CompletionHeap heap;
  constexpr std::size_t kSlots = 300;
  std::vector<std::int64_t> end(kSlots, -1);  // by slot
  std::set<std::tuple<std::int64_t, std::size_t>> model;
  const auto task = [](std::size_t slot) { return kSlots - slot; };  // not in order of slot
  for (int step = 0; step < 100'000; ++step) {
    const std::size_t slot = random.below(kSlots);
    const auto time = static_cast<std::int64_t>(random.below(100));
    if (end[slot] < 0) {
      heap.push(static_cast<std::uint32_t>(slot), TaskId(task(slot)), Time{time});
      model.emplace(time, task(slot));
      end[slot] = time;
    } else if (random.chance(0.6)) {
      model.erase({end[slot], task(slot)});
      heap.update(static_cast<std::uint32_t>(slot), Time{time});
      model.emplace(time, task(slot));
      end[slot] = time;
    } else {
      const auto [first_time, first_task] = *model.begin();
      REQUIRE(heap.next_time() == Time{first_time});
      REQUIRE(task(heap.top()) == first_task);
      end[heap.top()] = -1;
      heap.pop();
      model.erase(model.begin());
    }
    REQUIRE(heap.empty() == model.empty());
  }
}
