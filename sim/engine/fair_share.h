#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "sim/engine/solo_costs.h"
#include "sim/engine/task_graph.h"

namespace foretrain::engine {

// Max-min fair rates for work that shares capacities.
//
// Each active task f has a rate r_f <= cap_f and takes u_fl r_f of every resource l it uses, with
// sum_f u_fl r_f <= C_l. Tasks are compared by their share s_f = r_f * w_f, where w_f is the cost's share_per_unit, by
// default max_l u_fl (for a plain transfer: its bytes per second on the link). Progressive filling raises all shares
// together, freezes a task at its cap or when a resource fills, and goes on: the result is unique
// (Bertsekas and Gallager, "Data Networks", section 6.5.2, here with weights).
//
// Certificate (what tests check): rates are feasible, and every task is at its cap or has a saturated resource
// on which no other task has a larger share.
//
// Numbers: what remains of a capacity is computed afresh from the frozen tasks whenever it is needed, never
// decreased step by step; resources that fill within a relative 1e-12 of each other fill together. Multiplying
// all capacities and caps by a power of two multiplies all rates by exactly that.
class FairShareSolver {
 public:
  // Sees the graph's resources and costs, which must be complete; keeps a reference.
  explicit FairShareSolver(const TaskGraph& graph);

  // Solves the rates of `tasks` (the active tasks of one connected component; several are solved too). rates[i]
  // belongs to tasks[i]; bound_by[i] is the resource that stopped it, the lowest id among several, or invalid when
  // its cap did. All three spans have one length. The rates do depend on the order of `tasks`, by rounding alone.
  void solve(std::span<const TaskId> tasks, std::span<double> rates, std::span<ResourceId> bound_by);

  // What each cost does alone.
  const SoloCosts& solo() const { return solo_; }

 private:
  // A task being solved. Its cap is its solo rate: sharing cannot speed it up.
  struct Filler {
    CostId cost;
    double cap_share = 0.0;
    bool frozen = false;
  };
  // A resource that the tasks being solved may have to share.
  struct Vessel {
    ResourceId id;
    double level = 0.0;  // the share at which it fills; a lower bound while stale
    Demand demand = 0;
    std::uint32_t first = 0, count = 0;  // its part of incidences_
    std::uint32_t unfrozen = 0;
    bool stale = true;    // a user froze since the level was computed
    bool filled = false;  // fills at the present level
  };
  struct Incidence {
    std::uint32_t filler;
    double use;
    double weight;  // use / share_per_unit: load per unit of share
  };
  struct Problem {
    std::span<double> rates;
    std::span<ResourceId> bound_by;
  };

  void set_up(std::span<const TaskId> tasks);
  void tear_down();
  void refresh(Vessel& vessel, std::span<const double> rates);
  void fill_by_scan(const Problem& problem);
  void fill_by_heap(const Problem& problem);
  void freeze_filled(const Problem& problem, double level);
  void freeze(const Problem& problem, std::uint32_t filler, double rate, ResourceId bound);
  ResourceId filled_resource(const Cost& cost) const;

  const TaskGraph& graph_;
  SoloCosts solo_;
  double floor_ = 0.0;  // the level reached so far

  // Scratch space, kept so that a solve allocates nothing once it has seen the largest problem.
  std::vector<std::uint32_t> vessel_of_;  // by resource; kNone outside a solve
  std::vector<Filler> fillers_;
  std::vector<Vessel> vessels_;
  std::vector<Incidence> incidences_;
  std::vector<std::uint32_t> open_;    // unfrozen fillers (some may have frozen since)
  std::vector<std::uint32_t> live_;    // vessels with unfrozen users (likewise)
  std::vector<std::uint32_t> filled_;  // vessels that fill at the present level
  std::vector<std::pair<double, std::uint32_t>> by_level_;
};

}  // namespace foretrain::engine
