#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <thread>
#include <vector>

namespace foretrain {

// The number of threads to use when the user does not say.
inline int default_threads() { return static_cast<int>(std::max(1U, std::thread::hardware_concurrency())); }

// Calls body(0) ... body(count - 1), each once, from up to `threads` threads. Bodies must not touch each other's data;
// the result is then the same for any number of threads. If bodies throw, all the others still run and the exception
// of the lowest index is rethrown.
template <class Body>
void parallel_for(std::size_t count, int threads, const Body& body) {
  std::vector<std::exception_ptr> thrown(count);
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < count; i = next++) {
      try {
        body(i);
      } catch (...) {
        thrown[i] = std::current_exception();
      }
    }
  };
  {
    const std::size_t wanted = std::min(count, static_cast<std::size_t>(std::max(threads, 1)));
    std::vector<std::jthread> others;
    for (std::size_t t = 1; t < wanted; ++t) others.emplace_back(work);
    work();
  }
  for (const std::exception_ptr& e : thrown) {
    if (e) std::rethrow_exception(e);
  }
}

}  // namespace foretrain
