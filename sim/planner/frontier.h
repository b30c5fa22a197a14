#pragma once

#include <set>
#include <tuple>
#include <vector>

#include "sim/planner/choice.h"

namespace foretrain {

// A plan that may be worth simulating.
struct Candidate {
  PlanChoice choice;
  Time bound;              // it takes no less
  Bytes missing;           // at least
  bool too_large = false;  // some of it is to be recomputed before it fits: the bound is of the plan without
  bool simulated = false;  // in another form that did not fit

  auto order() const { return std::tie(bound, choice); }
};

// The candidates of a search in ascending order of what they take at least. Some come back with a higher bound.
class Frontier {
 public:
  void add(std::vector<Candidate>& candidates) { sorted_.insert(sorted_.end(), candidates.begin(), candidates.end()); }
  // Once all are added.
  void sort();
  void put_back(Candidate candidate) { again_.insert(std::move(candidate)); }

  bool empty() const { return next_ == sorted_.size() && again_.empty(); }
  // Of the next candidate; there is one.
  Time bound() const;
  // The next `count` candidates, or as many as there are.
  std::vector<Candidate> take(std::size_t count);
  // How many have a bound of no more.
  std::size_t within(Time bound) const;

 private:
  struct Before {
    bool operator()(const Candidate& a, const Candidate& b) const { return a.order() < b.order(); }
  };
  bool came_back_first() const;

  std::vector<Candidate> sorted_;
  std::size_t next_ = 0;  // in sorted_
  std::set<Candidate, Before> again_;
};

}  // namespace foretrain
