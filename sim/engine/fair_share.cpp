#include "sim/engine/fair_share.h"

#include <algorithm>
#include <functional>
#include <limits>

namespace foretrain::engine {
namespace {

constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Few levels, as symmetric traffic has, are found fastest by scanning everything for each; many by a heap.
// Scanning goes on while few tasks are left or a scan freezes at least one in this many of them.
constexpr std::size_t kScansPay = 32;

constexpr double with_tolerance(double level) { return level * (1.0 + kLevelTolerance); }

}  // namespace

FairShareSolver::FairShareSolver(const TaskGraph& graph)
    : graph_(graph), solo_(graph), vessel_of_(graph.resource_count(), kNone) {}

void FairShareSolver::solve(std::span<const TaskId> tasks, std::span<double> rates, std::span<ResourceId> bound_by) {
  set_up(tasks);
  const Problem problem{rates, bound_by};
  fill_by_scan(problem);
  fill_by_heap(problem);
  tear_down();
}

// Lists the tasks, the resources that may bind them, and who uses which.
void FairShareSolver::set_up(std::span<const TaskId> tasks) {
  floor_ = 0.0;
  fillers_.clear();
  vessels_.clear();
  open_.clear();
  live_.clear();
  for (const TaskId task : tasks) {
    const CostId cost_id = graph_.cost_of(task);
    const SoloCost& solo = solo_[cost_id];
    open_.push_back(static_cast<std::uint32_t>(fillers_.size()));
    fillers_.push_back({cost_id, solo.share_per_unit > 0.0 ? solo.rate * solo.share_per_unit : 0.0, false});

    const Cost& cost = graph_.cost(cost_id);
    const auto uses = graph_.uses(cost);
    const auto demands = solo_.demands(cost);
    for (std::size_t i = 0; i < uses.size(); ++i) {
      std::uint32_t& index = vessel_of_[uses[i].resource.index()];
      if (index == kNone) {
        index = static_cast<std::uint32_t>(vessels_.size());
        vessels_.push_back({.id = uses[i].resource});
      }
      vessels_[index].demand += demands[i];
      ++vessels_[index].count;
    }
  }

  std::uint32_t total = 0;
  for (std::uint32_t index = 0; index < vessels_.size(); ++index) {
    Vessel& vessel = vessels_[index];
    vessel.first = total;
    if (!binds(vessel.demand)) {
      vessel_of_[vessel.id.index()] = kNone;
      continue;
    }
    total += vessel.count;
    live_.push_back(index);
  }
  incidences_.resize(total);
  for (std::uint32_t filler = 0; filler < fillers_.size(); ++filler) {
    const double share_per_unit = solo_[fillers_[filler].cost].share_per_unit;
    for (const ResourceUse& use : graph_.uses(graph_.cost(fillers_[filler].cost))) {
      const std::uint32_t index = vessel_of_[use.resource.index()];
      if (index == kNone) continue;
      Vessel& vessel = vessels_[index];
      incidences_[vessel.first + vessel.unfrozen++] = {filler, use.per_unit, use.per_unit / share_per_unit};
    }
  }
}

void FairShareSolver::tear_down() {
  for (const Vessel& vessel : vessels_) vessel_of_[vessel.id.index()] = kNone;
}

// Computes the share at which the resource fills if its unfrozen users rise together.
void FairShareSolver::refresh(Vessel& vessel, std::span<const double> rates) {
  double taken = 0.0;
  double weight = 0.0;
  for (const Incidence& incidence : std::span(incidences_).subspan(vessel.first, vessel.count)) {
    if (fillers_[incidence.filler].frozen) {
      taken += incidence.use * rates[incidence.filler];
    } else {
      weight += incidence.weight;
    }
  }
  const double left = graph_.capacity(vessel.id) - taken;
  vessel.level = weight > 0.0 ? std::max(floor_, left / weight) : kInfinity;
  vessel.stale = false;
}

void FairShareSolver::fill_by_scan(const Problem& problem) {
  for (std::size_t frozen = open_.size(); !open_.empty() && frozen * kScansPay >= open_.size();) {
    double level = kInfinity;
    std::erase_if(live_, [&](std::uint32_t index) {
      Vessel& vessel = vessels_[index];
      if (vessel.unfrozen == 0) return true;
      if (vessel.stale) refresh(vessel, problem.rates);
      level = std::min(level, vessel.level);
      return false;
    });
    for (const std::uint32_t filler : open_) level = std::min(level, fillers_[filler].cap_share);

    const double limit = with_tolerance(level);
    filled_.clear();
    for (const std::uint32_t index : live_) {
      if (vessels_[index].level <= limit) filled_.push_back(index);
    }
    freeze_filled(problem, level);
    frozen = std::erase_if(open_, [&](std::uint32_t filler) {
      const SoloCost& solo = solo_[fillers_[filler].cost];
      if (!fillers_[filler].frozen && fillers_[filler].cap_share <= limit) {
        freeze(problem, filler, solo.rate, solo.bound);
      }
      return fillers_[filler].frozen;
    });
  }
}

// A level only rises while users freeze below it, so the heap may hold stale levels: they are lower bounds, and
// are computed afresh when they reach the top.
void FairShareSolver::fill_by_heap(const Problem& problem) {
  if (open_.empty()) return;
  std::sort(open_.begin(), open_.end(), [this](std::uint32_t a, std::uint32_t b) {
    return std::pair(fillers_[a].cap_share, a) < std::pair(fillers_[b].cap_share, b);
  });
  by_level_.clear();
  for (const std::uint32_t index : live_) {
    if (vessels_[index].unfrozen > 0) by_level_.emplace_back(vessels_[index].level, index);
  }
  std::make_heap(by_level_.begin(), by_level_.end(), std::greater<>());

  // Takes the resource that fills first off the heap, if it fills at or below `limit`.
  const auto pop_up_to = [&](double limit) {
    while (!by_level_.empty() && by_level_.front().first <= limit) {
      std::pop_heap(by_level_.begin(), by_level_.end(), std::greater<>());
      const std::uint32_t index = by_level_.back().second;
      by_level_.pop_back();
      Vessel& vessel = vessels_[index];
      if (vessel.unfrozen == 0) continue;
      if (!vessel.stale) return index;
      refresh(vessel, problem.rates);
      by_level_.emplace_back(vessel.level, index);
      std::push_heap(by_level_.begin(), by_level_.end(), std::greater<>());
    }
    return kNone;
  };

  std::size_t next_cap = 0;
  while (true) {
    while (next_cap < open_.size() && fillers_[open_[next_cap]].frozen) ++next_cap;
    if (next_cap == open_.size()) return;
    double level = fillers_[open_[next_cap]].cap_share;
    filled_.clear();
    if (const std::uint32_t first = pop_up_to(level); first != kNone) {
      level = vessels_[first].level;
      filled_.push_back(first);
    }
    const double limit = with_tolerance(level);
    for (std::uint32_t index = pop_up_to(limit); index != kNone; index = pop_up_to(limit)) filled_.push_back(index);

    freeze_filled(problem, level);
    for (; next_cap < open_.size() && fillers_[open_[next_cap]].cap_share <= limit; ++next_cap) {
      const SoloCost& solo = solo_[fillers_[open_[next_cap]].cost];
      if (!fillers_[open_[next_cap]].frozen) freeze(problem, open_[next_cap], solo.rate, solo.bound);
    }
  }
}

// Freezes the users of the resources in filled_ at the share `level`, or at their cap where that is not above it.
void FairShareSolver::freeze_filled(const Problem& problem, double level) {
  floor_ = level;
  for (const std::uint32_t index : filled_) vessels_[index].filled = true;
  for (const std::uint32_t index : filled_) {
    const Vessel& vessel = vessels_[index];
    for (const Incidence& incidence : std::span(incidences_).subspan(vessel.first, vessel.count)) {
      const Filler& filler = fillers_[incidence.filler];
      if (filler.frozen) continue;
      const SoloCost& solo = solo_[filler.cost];
      if (filler.cap_share <= level) {
        freeze(problem, incidence.filler, solo.rate, solo.bound);
      } else {
        freeze(problem, incidence.filler, std::min(level / solo.share_per_unit, solo.rate),
               filled_resource(graph_.cost(filler.cost)));
      }
    }
  }
  for (const std::uint32_t index : filled_) vessels_[index].filled = false;
}

void FairShareSolver::freeze(const Problem& problem, std::uint32_t filler, double rate, ResourceId bound) {
  fillers_[filler].frozen = true;
  problem.rates[filler] = rate;
  problem.bound_by[filler] = bound;
  for (const ResourceUse& use : graph_.uses(graph_.cost(fillers_[filler].cost))) {
    const std::uint32_t index = vessel_of_[use.resource.index()];
    if (index == kNone) continue;
    --vessels_[index].unfrozen;
    vessels_[index].stale = true;
  }
}

// The first of a task's resources that fills at the present level.
ResourceId FairShareSolver::filled_resource(const Cost& cost) const {
  for (const ResourceUse& use : graph_.uses(cost)) {
    const std::uint32_t index = vessel_of_[use.resource.index()];
    if (index != kNone && vessels_[index].filled) return use.resource;
  }
  return {};
}

}  // namespace foretrain::engine
