#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace foretrain::engine {

// Time in the high word, what happens to whom in the low word: one wide comparison is a total order on events.
using WideKey = __uint128_t;

constexpr WideKey wide_key(std::int64_t time_ps, std::uint64_t order) {
  return static_cast<WideKey>(static_cast<std::uint64_t>(time_ps)) << 64 | order;
}
constexpr std::int64_t time_of(WideKey key) { return static_cast<std::int64_t>(key >> 64); }
constexpr std::uint64_t order_of(WideKey key) { return static_cast<std::uint64_t>(key); }

// An implicit heap, smallest key first, with four children a node: shallower than a binary heap, and the four
// children share a cache line (LaMarca and Ladner, "The influence of caches on the performance of heaps", 1996).
//
// Each function fills the hole at `hole` with `key` and calls placed(i) for every position i it wrote.

// `key` may be smaller than its parent.
template <class Placed>
void sift_up(std::span<WideKey> heap, std::size_t hole, WideKey key, Placed placed) {
  while (hole > 0) {
    const std::size_t parent = (hole - 1) / 4;
    if (heap[parent] <= key) break;
    heap[hole] = heap[parent];
    placed(hole);
    hole = parent;
  }
  heap[hole] = key;
  placed(hole);
}

// The child of `node` with the smallest key; `node` has at least one.
inline std::size_t smallest_child(std::span<const WideKey> heap, std::size_t node) {
  const std::size_t first = 4 * node + 1;
  if (first + 3 < heap.size()) [[likely]] {
    const std::size_t a = heap[first + 1] < heap[first] ? first + 1 : first;
    const std::size_t b = heap[first + 3] < heap[first + 2] ? first + 3 : first + 2;
    return heap[b] < heap[a] ? b : a;
  }
  std::size_t best = first;
  for (std::size_t child = first + 1; child < heap.size(); ++child) {
    if (heap[child] < heap[best]) best = child;
  }
  return best;
}

// `key` may be larger than its children.
template <class Placed>
void sift_down(std::span<WideKey> heap, std::size_t hole, WideKey key, Placed placed) {
  while (4 * hole + 1 < heap.size()) {
    const std::size_t child = smallest_child(heap, hole);
    if (heap[child] >= key) break;
    heap[hole] = heap[child];
    placed(hole);
    hole = child;
  }
  heap[hole] = key;
  placed(hole);
}

// As sift_down, for a key that most likely belongs near the leaves (the last one, after a removal):
// the hole runs down without comparing the key, which then rises the little it has to.
template <class Placed>
void sift_to_leaf(std::span<WideKey> heap, std::size_t hole, WideKey key, Placed placed) {
  while (4 * hole + 1 < heap.size()) {
    const std::size_t child = smallest_child(heap, hole);
    heap[hole] = heap[child];
    placed(hole);
    hole = child;
  }
  sift_up(heap, hole, key, placed);
}

}  // namespace foretrain::engine
