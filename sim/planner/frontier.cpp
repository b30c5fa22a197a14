#include "sim/planner/frontier.h"

#include <algorithm>

namespace foretrain {

void Frontier::sort() { std::sort(sorted_.begin(), sorted_.end(), Before{}); }

bool Frontier::came_back_first() const {
  return !again_.empty() && (next_ == sorted_.size() || Before{}(*again_.begin(), sorted_[next_]));
}

Time Frontier::bound() const { return came_back_first() ? again_.begin()->bound : sorted_[next_].bound; }

std::vector<Candidate> Frontier::take(std::size_t count) {
  std::vector<Candidate> taken;
  while (taken.size() < count && !empty()) {
    if (came_back_first()) {
      taken.push_back(std::move(again_.extract(again_.begin()).value()));
    } else {
      taken.push_back(sorted_[next_++]);
    }
  }
  return taken;
}

std::size_t Frontier::within(Time bound) const {
  const auto end = std::partition_point(sorted_.begin() + static_cast<std::ptrdiff_t>(next_), sorted_.end(),
                                        [bound](const Candidate& c) { return c.bound <= bound; });
  const auto back = std::find_if(again_.begin(), again_.end(), [bound](const Candidate& c) { return c.bound > bound; });
  return static_cast<std::size_t>(end - sorted_.begin()) - next_ +
         static_cast<std::size_t>(std::distance(again_.begin(), back));
}

}  // namespace foretrain
