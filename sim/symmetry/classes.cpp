#include "sim/symmetry/classes.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <unordered_map>
#include <unordered_set>

#include "sim/base/random.h"

namespace foretrain {
namespace {

std::uint64_t mix(std::uint64_t x) { return mix_bits(x); }
std::uint64_t mix(std::uint64_t a, std::uint64_t b) { return mix(a ^ std::rotl(mix(b), 17)); }

// Loads that differ only by rounding are the same load.
std::uint64_t load_colour(double bytes_per_unit) {
  return static_cast<std::uint64_t>(std::llround(bytes_per_unit * 1e9));
}

// Numbers the distinct colours in order of first appearance.
std::vector<std::uint32_t> numbered(std::span<const std::uint64_t> colours, std::size_t& count) {
  std::unordered_map<std::uint64_t, std::uint32_t> numbers;
  std::vector<std::uint32_t> number;
  number.reserve(colours.size());
  for (std::uint64_t colour : colours) {
    const auto next = static_cast<std::uint32_t>(numbers.size());
    number.push_back(numbers.try_emplace(colour, next).first->second);
  }
  count = numbers.size();
  return number;
}

std::size_t distinct(const std::vector<std::uint64_t>& colours) {
  return std::unordered_set<std::uint64_t>(colours.begin(), colours.end()).size();
}

struct Refinement {
  std::vector<std::uint64_t> ranks, groups, links;

  std::size_t colours() const { return distinct(ranks) + distinct(groups) + distinct(links); }
};

}  // namespace

Classes refine(std::span<const std::uint64_t> rank_colours, std::span<const CommunicatorGroup> groups,
               const Cluster& cluster) {
  // Only links that carry something take part.
  std::vector<std::uint32_t> used_index(cluster.link_count(), LinkId::kInvalid);
  std::vector<LinkId> used;
  for (const CommunicatorGroup& group : groups) {
    for (const LinkLoad& load : group.loads) {
      if (used_index[load.link.index()] != LinkId::kInvalid) continue;
      used_index[load.link.index()] = static_cast<std::uint32_t>(used.size());
      used.push_back(load.link);
    }
  }

  Refinement now;
  now.ranks.assign(rank_colours.begin(), rank_colours.end());
  for (std::uint64_t& colour : now.ranks) colour = mix(colour);
  for (const CommunicatorGroup& group : groups) now.groups.push_back(mix(group.kind, group.ranks.size()));
  for (LinkId id : used) {
    const Link link = cluster.link(id);
    now.links.push_back(mix(static_cast<std::uint64_t>(link.kind), std::bit_cast<std::uint64_t>(link.rate.value)));
  }

  for (std::size_t classes = now.colours();;) {
    Refinement next;
    std::vector<std::uint64_t> rank_sum(now.ranks.size()), link_sum(now.links.size());
    next.groups.reserve(groups.size());
    for (std::size_t g = 0; g < groups.size(); ++g) {
      std::uint64_t sum = 0;
      for (std::size_t i = 0; i < groups[g].ranks.size(); ++i) {
        const auto rank = static_cast<std::size_t>(groups[g].ranks[i]);
        const std::uint64_t role = groups[g].ordered ? i + 1 : 0;
        sum += mix(now.ranks[rank], role);
        rank_sum[rank] += mix(now.groups[g], role);
      }
      for (const LinkLoad& load : groups[g].loads) {
        const std::size_t link = used_index[load.link.index()];
        const std::uint64_t amount = load_colour(load.bytes_per_unit);
        sum += mix(now.links[link], amount);
        link_sum[link] += mix(now.groups[g], amount);
      }
      next.groups.push_back(mix(now.groups[g], sum));
    }
    for (std::size_t r = 0; r < now.ranks.size(); ++r) next.ranks.push_back(mix(now.ranks[r], rank_sum[r]));
    for (std::size_t l = 0; l < now.links.size(); ++l) next.links.push_back(mix(now.links[l], link_sum[l]));
    const std::size_t refined = next.colours();
    now = std::move(next);
    if (refined == classes) break;  // colours only ever split, so an equal count is the fixed point
    classes = refined;
  }

  Classes result;
  std::size_t rank_count = 0, group_count = 0, link_count = 0;
  result.class_of_rank = numbered(now.ranks, rank_count);
  result.class_of_group = numbered(now.groups, group_count);
  const std::vector<std::uint32_t> class_of_link = numbered(now.links, link_count);
  result.ranks.assign(rank_count, {0, 0});
  for (std::size_t r = 0; r < now.ranks.size(); ++r) {
    Classes::RankClass& c = result.ranks[result.class_of_rank[r]];
    if (c.multiplicity++ == 0) c.representative = static_cast<int>(r);
  }
  result.groups.assign(group_count, {0, 0});
  for (std::size_t g = 0; g < groups.size(); ++g) {
    Classes::GroupClass& c = result.groups[result.class_of_group[g]];
    if (c.multiplicity++ == 0) c.representative = g;
  }
  result.links.resize(link_count);
  for (Classes::LinkClass& c : result.links) c.multiplicity = 0;
  for (std::size_t l = 0; l < used.size(); ++l) {
    Classes::LinkClass& c = result.links[class_of_link[l]];
    if (c.multiplicity++ == 0) c.representative = used[l];
  }
  for (std::size_t id = 0; id < used_index.size(); ++id) {
    if (used_index[id] != LinkId::kInvalid)
      result.class_of_link.emplace_back(LinkId(id), class_of_link[used_index[id]]);
  }
  for (std::size_t g = 0; g < groups.size(); ++g) {
    for (const LinkLoad& load : groups[g].loads) {
      Classes::LinkClass& c = result.links[class_of_link[used_index[load.link.index()]]];
      if (c.representative != load.link) continue;
      const std::size_t group_class = result.class_of_group[g];
      auto known =
          std::find_if(c.uses.begin(), c.uses.end(), [&](const auto& use) { return use.group_class == group_class; });
      if (known == c.uses.end())
        c.uses.push_back({group_class, load.bytes_per_unit});
      else
        known->bytes_per_unit += load.bytes_per_unit;
    }
  }
  return result;
}

}  // namespace foretrain
