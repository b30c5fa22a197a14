#pragma once

#include <bit>
#include <cassert>
#include <vector>

#include "sim/base/time.h"
#include "sim/engine/quaternary_heap.h"
#include "sim/engine/task_graph.h"

namespace foretrain::engine {

// What happens to a task, in the order in which one instant treats it.
enum class EventKind : std::uint8_t { finish, start, begin_work };

struct Event {
  EventKind kind = EventKind::finish;
  TaskId task;

  constexpr bool operator==(const Event&) const = default;
  constexpr std::uint64_t order() const { return static_cast<std::uint64_t>(kind) << 32 | task.value; }
  static constexpr Event from_order(std::uint64_t order) {
    return {static_cast<EventKind>(order >> 32), TaskId(static_cast<std::size_t>(order & 0xffffffffU))};
  }
};

// The pending events, earliest first.
//
// Later events lie in a 4-ary heap and come out by (time, kind, task), whatever the order they were pushed in.
// Events pushed for the current instant, very common because tasks release each other in no time, go through a
// ring buffer: they follow the heap's events of this instant, first in first out.
class EventQueue {
 public:
  // Room for `events` pending ones; beyond it the queue grows.
  void reserve(std::size_t events) {
    heap_.reserve(events);
    ring_.resize(std::bit_ceil(std::max<std::size_t>(events, 16)));
  }

  bool empty() const { return heap_.empty() && ring_size_ == 0; }
  std::size_t size() const { return heap_.size() + ring_size_; }
  Time now() const { return now_; }

  // When the next event is due; Time::max() if there is none.
  Time next_time() const {
    if (ring_size_ > 0) return now_;
    return heap_.empty() ? Time::max() : Time{time_of(heap_.front())};
  }

  // Moves the clock, at most to next_time().
  void advance_to(Time now) {
    assert(now >= now_ && now <= next_time());
    now_ = now;
  }

  // `time` >= now().
  void push(Time time, Event event) {
    assert(time >= now_);
    if (time == now_) {
      push_now(event);
      return;
    }
    const WideKey key = wide_key(time.ps, event.order());
    heap_.push_back(key);
    sift_up(heap_, heap_.size() - 1, key, [](std::size_t) {});
  }

  bool has_due() const { return next_time() == now_; }

  // Removes and returns the next event of this instant; has_due() must hold.
  Event pop() {
    assert(has_due());
    if (heap_.empty() || time_of(heap_.front()) != now_.ps) return pop_now();
    const Event event = Event::from_order(order_of(heap_.front()));
    const WideKey last = heap_.back();
    heap_.pop_back();
    if (!heap_.empty()) sift_to_leaf(heap_, 0, last, [](std::size_t) {});
    return event;
  }

 private:
  void push_now(Event event) {
    if (ring_size_ == ring_.size()) grow_ring();
    ring_[(ring_head_ + ring_size_++) & (ring_.size() - 1)] = event;
  }

  Event pop_now() {
    const Event event = ring_[ring_head_];
    ring_head_ = (ring_head_ + 1) & (ring_.size() - 1);
    --ring_size_;
    return event;
  }

  void grow_ring() {
    std::vector<Event> larger(std::max<std::size_t>(16, 2 * ring_.size()));
    for (std::size_t i = 0; i < ring_size_; ++i) larger[i] = ring_[(ring_head_ + i) & (ring_.size() - 1)];
    ring_ = std::move(larger);
    ring_head_ = 0;
  }

  std::vector<WideKey> heap_;
  std::vector<Event> ring_;  // a power of two long
  std::size_t ring_head_ = 0;
  std::size_t ring_size_ = 0;
  Time now_;
};

}  // namespace foretrain::engine
