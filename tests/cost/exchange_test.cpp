#include "sim/cost/exchange.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <vector>

#include "tests/hardware/machines.h"

using namespace foretrain;
using namespace foretrain::test;

namespace {

Cluster nodes_of_8(int nodes, int nics) {
  ClusterDescription d = machine("h100", 8 * nodes, 8, Intra::nvswitch);
  if (nics > 0) d = with_nics(d, nics, 400);
  d.oversubscription = 2;
  return {d, link_rates()};
}

std::vector<int> everyone(const Cluster& cluster) {
  std::vector<int> gpus(static_cast<std::size_t>(cluster.gpu_count()));
  std::iota(gpus.begin(), gpus.end(), 0);
  return gpus;
}

}  // namespace

TEST_CASE("the chance that a token chooses one of some experts is the count of all choices") {
  // All pairs of 8 experts: C(8, 2) = 28, of which C(5, 2) = 10 avoid three given ones.
  CHECK(chance_of_any(8, 2, 3) == doctest::Approx(18.0 / 28.0));
  CHECK(chance_of_any(8, 1, 2) == doctest::Approx(0.25));
  CHECK(chance_of_any(8, 2, 8) == doctest::Approx(1.0));
  CHECK(chance_of_any(8, 7, 2) == doctest::Approx(1.0));
  CHECK(chance_of_any(128, 8, 0) == doctest::Approx(0.0));
}

TEST_CASE("with a limit of groups the chance is the count of all choices of groups, and of experts in them") {
  // Eight experts in four groups of two; a token takes two groups and three of their four experts. Every choice, one by
  // one, as bits.
  const TokenExchange exchange{.two_level = true, .experts = 8, .top_k = 3, .groups = 4, .top_groups = 2};
  for (int here = 0; here <= 8; ++here) {
    int all = 0, met = 0;
    for (unsigned groups = 0; groups < 16; ++groups) {
      if (std::popcount(groups) != exchange.top_groups) continue;
      unsigned candidates = 0;
      for (int g = 0; g < 4; ++g) candidates |= (groups >> g & 1U) * (3U << 2 * g);
      for (unsigned experts = 0; experts < 256; ++experts) {
        if (std::popcount(experts) != exchange.top_k || (experts & ~candidates) != 0) continue;
        ++all;
        if ((experts & ((1U << here) - 1)) != 0) ++met;
      }
    }
    CAPTURE(here);
    CHECK(chance_of_any(exchange, here) == doctest::Approx(static_cast<double>(met) / all));
  }
  for (const int here : {1, 5, 16, 40}) {
    CHECK(chance_of_any({.experts = 64, .top_k = 8, .groups = 8, .top_groups = 8}, here) ==
          doctest::Approx(chance_of_any(64, 8, here)));
  }
}

TEST_CASE("a token whose experts lie in four groups crosses the network to four nodes at most") {
  // DeepSeek-V3: 256 experts on 64 GPUs of 8 nodes, a group a node.
  const Cluster cluster = nodes_of_8(8, 8);
  const auto to_network = [&](int top_groups) {
    const TokenExchange exchange{.two_level = true, .experts = 256, .top_k = 8, .groups = 8, .top_groups = top_groups};
    double out = 0;
    for (const LinkLoad& load : exchange_loads(cluster, everyone(cluster), exchange))
      if (cluster.link(load.link).kind == LinkKind::nic) out += load.bytes_per_unit / 2;  // sent and received
    return out / 64 * exchange.top_k;  // nodes that a token crosses to, beside its own
  };
  double missed = 1;  // all eight experts are in the three other chosen groups: C(96, 8) / C(128, 8)
  for (int i = 0; i < 8; ++i) missed *= (96.0 - i) / (128.0 - i);
  CHECK(to_network(4) == doctest::Approx(7.0 / 8 * 4 * (1 - missed)));
  CHECK(to_network(1) == doctest::Approx(7.0 / 8));
  for (int groups = 1; groups < 8; ++groups) CHECK(to_network(groups) < to_network(groups + 1));
  CHECK(to_network(8) == doctest::Approx(7 * chance_of_any(256, 8, 32)));
}

TEST_CASE("in one node every GPU sends and receives what is not its own") {
  const Cluster node = nodes_of_8(1, 0);
  const auto loads = exchange_loads(node, everyone(node), {.two_level = false, .experts = 8, .top_k = 2});
  REQUIRE(loads.size() == 16);  // into the switch and out of it
  for (const LinkLoad& load : loads) {
    CHECK(node.link(load.link).kind == LinkKind::nvlink);
    CHECK(load.bytes_per_unit == doctest::Approx(7.0 / 8.0));
  }
  // Once to every GPU with one of its two experts of eight: the chance is 1/4, so of W, which is two copies, 1/8.
  for (const LinkLoad& load : exchange_loads(node, everyone(node), {.two_level = true, .experts = 8, .top_k = 2}))
    CHECK(load.bytes_per_unit == doctest::Approx(7.0 / 8.0));
  // Several experts a GPU: copies for one GPU travel once.
  const double once = chance_of_any(64, 8, 8) / 8;
  for (const LinkLoad& load : exchange_loads(node, everyone(node), {.two_level = true, .experts = 64, .top_k = 8}))
    CHECK(load.bytes_per_unit == doctest::Approx(7 * once));
}

TEST_CASE("between nodes each NIC carries what leaves its GPUs for others, and as much arrives") {
  for (const int nics : {8, 4, 1}) {
    const Cluster cluster = nodes_of_8(4, nics);
    for (const bool two_level : {false, true}) {
      CAPTURE(nics);
      CAPTURE(two_level);
      const TokenExchange exchange{.two_level = two_level, .experts = 128, .top_k = 8};
      double nic = 0, nvlink = 0, fabric = 0;
      for (const LinkLoad& load : exchange_loads(cluster, everyone(cluster), exchange)) {
        const LinkKind kind = cluster.link(load.link).kind;
        if (kind == LinkKind::nic) nic += load.bytes_per_unit;
        if (kind == LinkKind::nvlink) nvlink += load.bytes_per_unit;
        if (kind == LinkKind::fabric) fabric += load.bytes_per_unit;
      }
      const double out = two_level ? 3 * chance_of_any(128, 8, 32) / 8 : 24.0 / 32.0;
      const double inside = two_level ? 4 * 7 * chance_of_any(128, 8, 4) / 8 : 7.0 / 32.0;
      CHECK(nic == doctest::Approx(2 * 32 * out));  // sent and received
      // A single NIC hangs at one GPU, over which the others may reach it.
      if (nics > 1) CHECK(nvlink == doctest::Approx(2 * 32 * inside));
      CHECK(fabric == doctest::Approx(0.0));  // rails stay on their leaf switch
    }
  }
}

TEST_CASE("groups that lie unevenly on nodes send as much as they receive") {
  const Cluster cluster = nodes_of_8(3, 8);
  const std::vector<int> gpus = {0, 1, 2, 8, 9, 10, 11, 16};
  for (const bool two_level : {false, true}) {
    double out = 0, in = 0;
    for (const LinkLoad& load : exchange_loads(cluster, gpus, {.two_level = two_level, .experts = 32, .top_k = 4})) {
      const std::string name = cluster.link_name(load.link);
      if (cluster.link(load.link).kind != LinkKind::nic) continue;
      (name.find("sends") != std::string::npos ? out : in) += load.bytes_per_unit;
    }
    CHECK(out > 0);
    CHECK(out == doctest::Approx(in));
  }
}

TEST_CASE("an all-to-all takes its slowest link's time at least") {
  const Cluster cluster = nodes_of_8(2, 8);
  Diagnostics diagnostics;
  const auto loads = exchange_loads(cluster, everyone(cluster), {.two_level = false, .experts = 16, .top_k = 2});
  const GroupShape shape = with_exchange(shape_of(cluster, everyone(cluster)), cluster, loads);
  const CollectiveCost cost = collective_cost(Collective::all_to_all, {1e9}, shape, cluster,
                                              *load_collective_constants({FORETRAIN_SOURCE_DIR}, diagnostics));
  for (const LinkLoad& load : loads)
    CHECK(cost.cap.value * load.bytes_per_unit <= cluster.link(load.link).rate.value * 1.000001);
  // Half of it leaves over one NIC of 50 GB/s, of which 95 % are reached.
  CHECK(cost.idle_time().value == doctest::Approx(0.5e9 / 47.5e9).epsilon(0.02));
}
