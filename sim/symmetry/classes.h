#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "sim/base/units.h"
#include "sim/cost/collective.h"

namespace foretrain {

// A set of ranks that communicate, as the symmetry of the job needs to see it.
struct CommunicatorGroup {
  std::uint64_t kind = 0;  // groups of different kinds never match: purpose, stage, direction
  std::vector<int> ranks;
  bool ordered = false;         // roles differ by position (sender, receiver); else members are interchangeable
  std::vector<LinkLoad> loads;  // bytes per unit of work on each link
};

// Which ranks, groups and links cannot differ during the step.
//
// Colour refinement on the graph ranks - groups - links: colours start from what each is (rank_colour, kind, capacity)
// and are refined by their neighbours' until nothing splits. The partition is equitable: every group of a class loads
// links of the same classes equally, so max-min fair rates are constant on classes and one representative of each
// stands for all (study of engine design, section "Symmetry").
struct Classes {
  struct RankClass {
    int representative = 0;
    int multiplicity = 1;
  };
  struct GroupClass {
    std::size_t representative = 0;  // index into the groups
    int multiplicity = 1;
  };
  struct LinkClass {
    LinkId representative;
    int multiplicity = 1;
    // Work on this link per unit of work of a group class, all groups of the class together.
    struct Use {
      std::size_t group_class;
      double bytes_per_unit;
    };
    std::vector<Use> uses;
  };
  std::vector<RankClass> ranks;
  std::vector<GroupClass> groups;
  std::vector<LinkClass> links;                                 // only links that carry something
  std::vector<std::pair<LinkId, std::uint32_t>> class_of_link;  // of those, in order of their ids
  std::vector<std::uint32_t> class_of_rank;
  std::vector<std::uint32_t> class_of_group;
};

// `rank_colours`: what each rank is before it communicates (its stage, its GPU); equal colours may fold. Give every
// rank its own colour to fold nothing.
Classes refine(std::span<const std::uint64_t> rank_colours, std::span<const CommunicatorGroup> groups,
               const Cluster& cluster);

}  // namespace foretrain
