#pragma once

#include <cassert>
#include <vector>

#include "sim/base/time.h"
#include "sim/engine/quaternary_heap.h"
#include "sim/engine/task_graph.h"

namespace foretrain::engine {

// When each active piece of work will be done at its present rate, earliest first, ties by task.
//
// An indexed 4-ary heap with exactly one entry per slot: a changed rate re-keys the entry in place. Leaving dead
// duplicates behind instead costs 2-14 times more when a change re-times many pieces of work.
class CompletionHeap {
  // Keeps position_ in step with the heap.
  struct Placed {
    CompletionHeap& heap;
    void operator()(std::size_t at) const { heap.position_[slot_of(heap.heap_[at])] = static_cast<std::uint32_t>(at); }
  };
  Placed placed() { return {*this}; }
  static std::uint32_t slot_of(WideKey key) { return static_cast<std::uint32_t>(order_of(key)); }

 public:
  void reserve(std::size_t slots) {
    heap_.reserve(slots);
    position_.reserve(slots);
  }

  bool empty() const { return heap_.empty(); }
  // Time::max() if there is none.
  Time next_time() const { return heap_.empty() ? Time::max() : Time{time_of(heap_.front())}; }
  // The slot that is done first; the heap must not be empty.
  std::uint32_t top() const { return slot_of(heap_.front()); }

  // Slots are small dense numbers; this one must have no entry.
  void push(std::uint32_t slot, TaskId task, Time end) {
    if (slot >= position_.size()) position_.resize(slot + std::size_t{1});
    const WideKey key = wide_key(end.ps, static_cast<std::uint64_t>(task.value) << 32 | slot);
    heap_.push_back(key);
    sift_up(heap_, heap_.size() - 1, key, placed());
  }

  // Moves the entry of `slot`, which must exist, to another time.
  void update(std::uint32_t slot, Time end) {
    const std::size_t at = position_[slot];
    assert(at < heap_.size() && slot_of(heap_[at]) == slot);
    const WideKey key = wide_key(end.ps, order_of(heap_[at]));
    if (key < heap_[at]) {
      sift_up(heap_, at, key, placed());
    } else {
      sift_down(heap_, at, key, placed());
    }
  }

  void pop() {
    const WideKey last = heap_.back();
    heap_.pop_back();
    if (!heap_.empty()) sift_to_leaf(heap_, 0, last, placed());
  }

 private:
  std::vector<WideKey> heap_;
  std::vector<std::uint32_t> position_;  // by slot
};

}  // namespace foretrain::engine
