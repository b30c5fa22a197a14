#include "sim/engine/work_set.h"

#include <algorithm>

namespace foretrain::engine {

WorkSet::WorkSet(const TaskGraph& graph, const SoloCosts& solo)
    : graph_(graph), solo_(solo), loads_(graph.resource_count()) {}

std::uint32_t WorkSet::add(TaskId task) {
  const std::uint32_t slot = take_slot();
  slots_[slot] = {task, kNone, 0};
  const Cost& cost = graph_.cost(graph_.cost_of(task));
  const auto uses = graph_.uses(cost);
  const auto demands = solo_.demands(cost);
  for (std::size_t i = 0; i < uses.size(); ++i) {
    const ResourceId resource = uses[i].resource;
    Load& load = loads_[resource.index()];
    const std::uint32_t node = take_node();
    nodes_[node] = {resource, slot, slots_[slot].uses, load.head, kNone};
    if (load.head != kNone) nodes_[load.head].previous_user = node;
    load.head = node;
    slots_[slot].uses = node;
    change_demand(resource, demands[i]);
  }
  added_.push_back(slot);
  return slot;
}

void WorkSet::remove(std::uint32_t slot) {
  const Cost& cost = graph_.cost(graph_.cost_of(slots_[slot].task));
  const auto demands = solo_.demands(cost);
  std::size_t use = demands.size();  // the list of uses runs backwards
  for (std::uint32_t node = slots_[slot].uses; node != kNone;) {
    const Node removed = nodes_[node];
    if (removed.next_user != kNone) nodes_[removed.next_user].previous_user = removed.previous_user;
    if (removed.previous_user != kNone) {
      nodes_[removed.previous_user].next_user = removed.next_user;
    } else {
      loads_[removed.resource.index()].head = removed.next_user;
    }
    change_demand(removed.resource, -Demand{demands[--use]});
    nodes_[node].next_use = free_node_;
    free_node_ = node;
    node = removed.next_use;
  }
  slots_[slot] = {};
  free_slots_.push_back(slot);
}

void WorkSet::change_demand(ResourceId resource, Demand difference) {
  Load& load = loads_[resource.index()];
  const bool bound = binds(load.demand);
  load.demand += difference;
  if ((bound || binds(load.demand)) && !load.changed) {
    load.changed = true;
    changed_.push_back(resource);
  }
}

std::uint32_t WorkSet::take_node() {
  if (free_node_ == kNone) {
    nodes_.emplace_back();
    return static_cast<std::uint32_t>(nodes_.size() - 1);
  }
  const std::uint32_t node = free_node_;
  free_node_ = nodes_[node].next_use;
  return node;
}

std::uint32_t WorkSet::take_slot() {
  if (free_slots_.empty()) {
    slots_.emplace_back();
    return static_cast<std::uint32_t>(slots_.size() - 1);
  }
  const std::uint32_t slot = free_slots_.back();
  free_slots_.pop_back();
  return slot;
}

// Fills group_ with the tasks connected to `slot`; false if this search has met them before.
bool WorkSet::collect_group(std::uint32_t slot) {
  if (slots_[slot].searched == search_) return false;
  slots_[slot].searched = search_;
  group_.assign(1, slot);
  for (std::size_t i = 0; i < group_.size(); ++i) {
    for (std::uint32_t use = slots_[group_[i]].uses; use != kNone; use = nodes_[use].next_use) {
      Load& load = loads_[nodes_[use].resource.index()];
      if (load.searched == search_ || !binds(load.demand)) continue;
      load.searched = search_;
      for (std::uint32_t user = load.head; user != kNone; user = nodes_[user].next_user) {
        Slot& other = slots_[nodes_[user].slot];
        if (other.searched == search_) continue;
        other.searched = search_;
        group_.push_back(nodes_[user].slot);
      }
    }
  }
  std::sort(group_.begin(), group_.end(),
            [this](std::uint32_t a, std::uint32_t b) { return slots_[a].task < slots_[b].task; });
  return true;
}

}  // namespace foretrain::engine
