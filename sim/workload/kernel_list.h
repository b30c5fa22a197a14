#pragma once

#include <vector>

#include "sim/cost/kernel.h"

namespace foretrain {

// A kernel, or a few alike, with a name for people: what it belongs to ("qkv") and what it does ("weight gradient").
struct Kernel {
  const char* of = "";
  const char* what = "";
  KernelTime time;
};

// Kernels that a rank runs one after another, and the time of all of them.
class KernelList {
 public:
  KernelList() = default;
  KernelList(const char* of, const char* what, const KernelTime& time) : time_(time) {
    if (time.total().value > 0) kernels_.push_back({of, what, time});
  }

  const KernelTime& time() const { return time_; }
  Seconds total() const { return time_.total(); }
  const std::vector<Kernel>& kernels() const { return kernels_; }

  KernelList& operator+=(const KernelList& other) {
    time_ += other.time_;
    kernels_.insert(kernels_.end(), other.kernels_.begin(), other.kernels_.end());
    return *this;
  }

 private:
  KernelTime time_;
  std::vector<Kernel> kernels_;
};

inline KernelList operator+(KernelList a, const KernelList& b) { return a += b; }

}  // namespace foretrain
