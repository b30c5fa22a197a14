#include "sim/cost/placed_groups.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "sim/base/random.h"
#include "tests/hardware/machines.h"

using namespace foretrain;
using namespace foretrain::test;

namespace {

bool same_loads(const std::vector<LinkLoad>& a, const std::vector<LinkLoad>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const LinkLoad& x, const LinkLoad& y) {
    return x.link == y.link && x.bytes_per_unit == y.bytes_per_unit;
  });
}

// Some ranks of a cluster in a random order, by seed; few nodes or many.
std::vector<int> some_ranks(const Cluster& cluster, std::uint64_t seed) {
  std::vector<int> all(static_cast<std::size_t>(cluster.gpu_count()));
  std::iota(all.begin(), all.end(), 0);
  for (std::size_t i = all.size(); i-- > 1;) std::swap(all[i], all[mix_bits(seed ^ i) % (i + 1)]);
  std::vector<int> chosen(all.begin(), all.begin() + 2 + static_cast<std::ptrdiff_t>(mix_bits(seed) % 6));
  if (seed % 2 == 0) {  // within two nodes, so that groups lie alike now and then
    for (int& rank : chosen) rank = (rank % 16 + static_cast<int>(seed % 3) * 8) % cluster.gpu_count();
    std::sort(chosen.begin(), chosen.end());
    chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
  }
  if (chosen.size() < 2) chosen = {0, 9};
  return chosen;
}

}  // namespace

TEST_CASE("a group moved from where one like it lies has the very loads and rates of its own place") {
  ClusterDescription described = with_nics(machine("h100", 48, 8, Intra::nvswitch), 4, 400);
  described.oversubscription = 2;
  ClusterDescription slowed = described;  // one node is unlike the others, and nothing may be moved
  slowed.overrides.push_back({.link = "nic", .node = 1, .index = 2, .factor = 0.25});
  for (const ClusterDescription& d : {described, slowed, with_nics(machine("a100-pcie", 24, 4, Intra::pcie), 1, 100)}) {
    const Cluster cluster(d, link_rates());
    PlacedGroups groups(cluster);
    for (std::uint64_t seed = 0; seed < 300; ++seed) {
      const std::vector<int> ranks = some_ranks(cluster, seed);
      CAPTURE(seed);
      for (const Algorithm algorithm : {Algorithm::ring, Algorithm::tree, Algorithm::direct}) {
        CHECK(same_loads(groups.loads(ranks, algorithm), link_loads(cluster, ranks, algorithm)));
      }
      const GroupShape own = shape_of(cluster, ranks), &moved = groups.shape(ranks);
      CHECK(moved.ranks == own.ranks);
      CHECK(moved.nodes == own.nodes);
      CHECK(moved.ring_intra.value == own.ring_intra.value);
      CHECK(moved.ring_network.value == own.ring_network.value);
      CHECK(moved.nic_rate.value == own.nic_rate.value);
      const TokenExchange tokens{.two_level = seed % 3 == 0, .experts = 16, .top_k = 2};
      const PlacedGroups::Exchange exchange = groups.exchange(ranks, tokens);
      CHECK(same_loads(exchange.loads, exchange_loads(cluster, ranks, tokens)));
      CHECK(exchange.shape.exchange_network.value ==
            with_exchange(own, cluster, exchange.loads).exchange_network.value);
    }
  }
}
