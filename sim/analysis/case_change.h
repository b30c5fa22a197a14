#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/analysis/hardware_rate.h"
#include "sim/base/message.h"

namespace foretrain {

// One change of a set-up: of a switch, of the machine, of what a run is thought to do. What it does to the step is for
// the simulation to say.
struct CaseChange {
  std::string name;  // "flash-attention": for programs
  Message what;      // "FlashAttention 2 for standard attention": for people
  // nullopt where it does not apply: nothing would change, or the plan would not be legal.
  std::function<std::optional<Setup>(const Setup&)> apply;
};

// A change of the case alone. `edit` returns whether it changed anything; the plan is then checked anew.
CaseChange change_of_case(std::string name, Message what, std::function<bool(Case&)> edit);
// A change towards what another framework profile of configs/software does.
CaseChange change_as_profile(std::string name, Message what, std::string profile,
                             std::function<bool(Software&, const Software&)> edit);
// A rate times `factor`, where it matters.
CaseChange change_of_rate(std::string name, Message what, HardwareRate rate, double factor);

// What a framework or a plan can be told differently on the same machine: overlap, fused kernels, buckets, recompute,
// precision of gradients ...
std::vector<CaseChange> software_switches();

// What makes runs slower, faster or larger than their description: links and hosts that are not what they should be,
// settings that are not in force.
std::vector<CaseChange> known_causes();

// The case with its plan checked anew by resolve_plan(); nullopt if it is not legal.
std::optional<Case> if_legal(Case changed);

// What a set-up does: all that changes are compared by.
struct Outcome {
  Time step_time;
  double tokens_per_second = 0;
  // Of the first GPU: its forward passes with what they wait for, its backward passes likewise, and the rest.
  Time forward, backward, rest;
  Bytes needed, allocated;  // on the fullest GPU: what must fit, and what the allocator counts at the peak
  bool fits = true;
};
Outcome outcome_of(const CaseReport& report);

// A change that applies, with what came out.
struct TriedChange {
  CaseChange change;
  Case subject;  // as changed
  Outcome outcome;
};
// All changes that apply, in their order, tried on up to `threads` threads. A changed set-up that is out of proportion
// to simulate is left out.
std::vector<TriedChange> try_changes(const std::vector<CaseChange>& changes, const Setup& setup, int threads);

}  // namespace foretrain
