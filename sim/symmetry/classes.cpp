#include "sim/symmetry/classes.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "sim/base/random.h"

namespace foretrain {
namespace {

std::uint64_t mix(std::uint64_t x) { return mix_bits(x); }
std::uint64_t mix(std::uint64_t a, std::uint64_t b) { return mix(a ^ std::rotl(mix(b), 17)); }

// Loads that differ only by rounding are the same load.
std::uint64_t load_colour(double bytes_per_unit) {
  return static_cast<std::uint64_t>(std::llround(bytes_per_unit * 1e9));
}

// Numbers the distinct colours in order of first appearance. Colours are mixed bits: their low ones are as good a hash
// as any, and tables of twice as many places are seldom searched far.
class Numbering {
 public:
  explicit Numbering(std::span<const std::uint64_t> colours) : places_(std::bit_ceil(2 * colours.size() + 1)) {
    number_.reserve(colours.size());
    for (const std::uint64_t colour : colours) number_.push_back(number(colour));
  }

  std::size_t count() const { return count_; }
  std::vector<std::uint32_t> numbers() && { return std::move(number_); }

 private:
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
  struct Place {
    std::uint64_t colour = 0;
    std::uint32_t number = kNone;
  };

  std::uint32_t number(std::uint64_t colour) {
    const std::size_t mask = places_.size() - 1;
    std::size_t at = colour & mask;
    while (places_[at].number != kNone && places_[at].colour != colour) at = (at + 1) & mask;
    if (places_[at].number == kNone) places_[at] = {colour, count_++};
    return places_[at].number;
  }

  std::vector<Place> places_;
  std::vector<std::uint32_t> number_;
  std::uint32_t count_ = 0;
};

struct Refinement {
  std::vector<std::uint64_t> ranks, groups, links;

  std::size_t distinct() const {
    return Numbering(ranks).count() + Numbering(groups).count() + Numbering(links).count();
  }
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

  for (std::size_t classes = now.distinct();;) {
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
    const std::size_t refined = next.distinct();
    now = std::move(next);
    if (refined == classes) break;  // colours only ever split, so an equal count is the fixed point
    classes = refined;
  }

  Classes result;
  Numbering of_ranks(now.ranks), of_groups(now.groups), of_links(now.links);
  const std::size_t rank_count = of_ranks.count(), group_count = of_groups.count(), link_count = of_links.count();
  result.class_of_rank = std::move(of_ranks).numbers();
  result.class_of_group = std::move(of_groups).numbers();
  const std::vector<std::uint32_t> class_of_link = std::move(of_links).numbers();
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
