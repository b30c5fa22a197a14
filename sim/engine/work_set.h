#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/engine/solo_costs.h"
#include "sim/engine/task_graph.h"

namespace foretrain::engine {

// Which tasks are in their work phase, which of them meet on a resource that may bind them, and whose rates a
// change can therefore reach.
//
// A task has a slot while it works. Memory follows the largest number of tasks that ever work at once; nothing is
// allocated below that.
class WorkSet {
 public:
  // Keeps references to both.
  WorkSet(const TaskGraph& graph, const SoloCosts& solo);

  // The task begins its work. Returns its slot.
  std::uint32_t add(TaskId task);
  // The work in `slot` is done; the slot may be used again.
  void remove(std::uint32_t slot);

  // Slots are below this; slot_count() - size() of them are free.
  std::size_t slot_count() const { return slots_.size(); }
  std::size_t size() const { return slots_.size() - free_slots_.size(); }
  // The task in `slot`, invalid if it is free.
  TaskId task(std::uint32_t slot) const { return slots_[slot].task; }

  // Calls solve(slots) for each group of tasks whose rates may differ since the last call, and forgets the changes.
  // A group is connected through resources that bind; its slots are in order of task, so that its rates depend
  // on what the tasks are and not on their history.
  template <class Solve>
  void for_each_changed_group(Solve solve) {
    begin_search();
    for (const std::uint32_t slot : added_) {
      if (collect_group(slot)) solve(std::span<const std::uint32_t>(group_));
    }
    for (const ResourceId resource : changed_) {
      loads_[resource.index()].changed = false;
      for (std::uint32_t node = loads_[resource.index()].head; node != kNone; node = nodes_[node].next_user) {
        if (collect_group(nodes_[node].slot)) solve(std::span<const std::uint32_t>(group_));
      }
    }
    added_.clear();
    changed_.clear();
  }

 private:
  static constexpr std::uint32_t kNone = 0xffffffffU;

  // One use of one resource by one working task: in a list of the resource's users and in a list of the task's uses.
  struct Node {
    ResourceId resource;
    std::uint32_t slot = kNone;
    std::uint32_t next_use = kNone;
    std::uint32_t next_user = kNone;
    std::uint32_t previous_user = kNone;
  };
  struct Load {
    Demand demand = 0;
    std::uint32_t head = kNone;
    bool changed = false;
    std::uint64_t searched = 0;
  };
  struct Slot {
    TaskId task;
    std::uint32_t uses = kNone;
    std::uint64_t searched = 0;
  };

  void change_demand(ResourceId resource, Demand difference);
  std::uint32_t take_node();
  std::uint32_t take_slot();
  void begin_search() { ++search_; }
  bool collect_group(std::uint32_t slot);

  const TaskGraph& graph_;
  const SoloCosts& solo_;
  std::vector<Load> loads_;  // by resource
  std::vector<Slot> slots_;
  std::vector<Node> nodes_;
  std::vector<std::uint32_t> free_slots_;
  std::uint32_t free_node_ = kNone;  // chained by next_use

  std::vector<std::uint32_t> added_;  // slots
  std::vector<ResourceId> changed_;   // bind or did bind
  std::uint64_t search_ = 0;
  std::vector<std::uint32_t> group_;
};

}  // namespace foretrain::engine
