#include "sim/cost/collective.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>

#include "tests/hardware/machines.h"

using namespace foretrain;
using namespace foretrain::test;

namespace {

CollectiveConstants constants() {
  Diagnostics diagnostics;
  auto loaded = load_collective_constants({FORETRAIN_SOURCE_DIR}, diagnostics);
  if (!loaded) throw std::runtime_error(to_string(diagnostics.all().front()));
  return *loaded;
}

Cluster build(const ClusterDescription& description) { return Cluster(description, link_rates()); }

std::vector<int> first_gpus(int count) {
  std::vector<int> gpus(static_cast<std::size_t>(count));
  std::iota(gpus.begin(), gpus.end(), 0);
  return gpus;
}

std::vector<int> every(int step, int count, int first = 0) {
  std::vector<int> gpus;
  for (int i = 0; i < count; ++i) gpus.push_back(first + i * step);
  return gpus;
}

CollectiveCost cost_of(Collective op, double bytes, const Cluster& cluster, const std::vector<int>& gpus) {
  return collective_cost(op, {bytes}, shape_of(cluster, gpus), cluster, constants());
}

double idle_us(Collective op, double bytes, const Cluster& cluster, const std::vector<int>& gpus) {
  return cost_of(op, bytes, cluster, gpus).idle_time().value * 1e6;
}

// Bus bandwidth as nccl-tests prints it, GB/s.
double bus_bandwidth(Collective op, double bytes, const Cluster& cluster, const std::vector<int>& gpus) {
  const auto n = static_cast<double>(gpus.size());
  const double factor = op == Collective::all_reduce                                       ? 2 * (n - 1) / n
                        : op == Collective::all_gather || op == Collective::reduce_scatter ? (n - 1) / n
                                                                                           : 1.0;
  return bytes * factor / idle_us(op, bytes, cluster, gpus) / 1e3;
}

double idle_rate(const Cluster& cluster, const std::vector<LinkLoad>& loads) {
  double rate = 1e300;
  for (const LinkLoad& load : loads) rate = std::min(rate, cluster.link(load.link).rate.value / load.bytes_per_unit);
  return rate;
}

struct Total {
  double sends = 0, receives = 0;
};
// Bytes through the NICs of each node.
std::map<int, Total> network_totals(const Cluster& cluster, const std::vector<LinkLoad>& loads) {
  std::map<int, Total> totals;
  for (const LinkLoad& load : loads) {
    if (cluster.link(load.link).kind != LinkKind::nic) continue;
    const std::string name = cluster.link_name(load.link);
    Total& total = totals[std::stoi(name.substr(5))];
    (name.find("sends") != std::string::npos ? total.sends : total.receives) += load.bytes_per_unit;
  }
  return totals;
}

struct Setup {
  const char* name;
  Cluster cluster;
  std::vector<int> gpus;
};

std::vector<Setup> setups() {
  const auto staged = [](ClusterDescription d) {
    d.p2p = false;
    return d;
  };
  const auto nodes16 = [](const char* gpu, int nics) {
    return build(with_nics(machine(gpu, 16, 8, Intra::nvswitch), nics, 200));
  };
  ClusterDescription tree = with_nics(machine("h100", 64, 8, Intra::nvswitch), 8, 400);
  tree.oversubscription = 2.0;
  tree.rail_optimised = false;
  return {
      {"8 A100", build(machine("a100", 8, 8, Intra::nvswitch)), first_gpus(8)},
      {"3 H100", build(machine("h100", 8, 8, Intra::nvswitch)), first_gpus(3)},
      {"8 H100", build(machine("h100", 8, 8, Intra::nvswitch)), first_gpus(8)},
      {"8 V100", build(machine("v100", 8, 8, Intra::nvlink_mesh)), first_gpus(8)},
      {"4 A100 mesh", build(machine("a100", 4, 4, Intra::nvlink_mesh)), first_gpus(4)},
      {"8 A100 PCIe", build(machine("a100-pcie", 8, 8, Intra::nvlink_pairs)), first_gpus(8)},
      {"2 A100 PCIe", build(machine("a100-pcie", 8, 8, Intra::nvlink_pairs)), {2, 3}},
      {"8 L40S", build(machine("l40s", 8, 8, Intra::pcie)), first_gpus(8)},
      {"8 Pro 6000", build(machine("rtxpro6000", 8, 8, Intra::pcie_switch)), first_gpus(8)},
      {"8 4090", build(staged(machine("rtx4090", 8, 8, Intra::pcie))), first_gpus(8)},
      {"2x8 A100", nodes16("a100", 8), first_gpus(16)},
      {"2x8 A100, 4 NICs", nodes16("a100", 4), first_gpus(16)},
      {"2x8 H100, 16 NICs", nodes16("h100", 16), first_gpus(16)},
      {"2x3 H100", nodes16("h100", 8), {0, 1, 2, 8, 9, 10}},
      {"8x8 H100 on a tree", build(tree), first_gpus(64)},
      {"8x1 H100 on a tree", build(tree), every(8, 8, 3)},
      {"4x4 V100, EFA",
       build(with_nics(machine("v100", 32, 8, Intra::nvlink_mesh), 1, 100, NetworkKind::efa)),
       {0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27}},
      {"2x8 4090, TCP", build(staged(with_nics(machine("rtx4090", 16, 8, Intra::pcie), 1, 25, NetworkKind::ethernet))),
       first_gpus(16)},
      {"4x2 L40S", build(with_nics(machine("l40s", 8, 2, Intra::pcie), 2, 100, NetworkKind::roce)), first_gpus(8)},
  };
}

constexpr Collective kOperations[] = {Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter,
                                      Collective::broadcast};

}  // namespace

TEST_CASE("the constants are read from the data folder, and a wrong file is refused where it is wrong") {
  CHECK(constants().ring_base_us == 6.6);
  CHECK(constants().s1_per_rank.value == 130 * 1024);
  CHECK_FALSE(constants().efa_volta.tree);

  const std::filesystem::path folder = std::filesystem::temp_directory_path() / "foretrain_collective_test";
  std::filesystem::create_directories(folder / "hardware/calibrated");
  std::ifstream in(std::string(FORETRAIN_SOURCE_DIR) + "/hardware/calibrated/collectives.yaml");
  std::string text((std::istreambuf_iterator<char>(in)), {});
  text.replace(text.find("ring_base: 6.6"), 14, "ring_bass: 6.6");
  std::ofstream(folder / "hardware/calibrated/collectives.yaml") << text;
  Diagnostics diagnostics;
  CHECK_FALSE(load_collective_constants({folder.string()}, diagnostics).has_value());
  CHECK(diagnostics.error_count() == 2);  // one key missing, one unknown
  CHECK_FALSE(load_link_rates({folder.string()}, diagnostics).has_value());
  std::filesystem::remove_all(folder);
}

TEST_CASE("nothing is free of bytes or ranks") {
  const Cluster cluster = build(machine("h100", 8, 8, Intra::nvswitch));
  for (const Collective op : kOperations) {
    CHECK(cost_of(op, 0, cluster, first_gpus(8)).idle_time().value == 0.0);
    CHECK(cost_of(op, 1e9, cluster, {3}).idle_time().value == 0.0);
  }
  CHECK(link_loads(cluster, std::vector{3}, Algorithm::ring).empty());
}

TEST_CASE("ring volumes are the closed forms, and every NVLink of one node carries W") {
  const Cluster cluster = build(machine("a100", 8, 8, Intra::nvswitch));
  for (const int n : {2, 3, 8}) {
    const double s = 1 << 30;
    CHECK(cost_of(Collective::all_reduce, s, cluster, first_gpus(n)).wire_bytes.value ==
          doctest::Approx(s * 2 * (n - 1) / n));
    CHECK(cost_of(Collective::all_gather, s, cluster, first_gpus(n)).wire_bytes.value ==
          doctest::Approx(s * (n - 1) / n));
    CHECK(cost_of(Collective::reduce_scatter, s, cluster, first_gpus(n)).wire_bytes.value ==
          doctest::Approx(s * (n - 1) / n));
    const auto loads = link_loads(cluster, first_gpus(n), Algorithm::ring);
    CHECK(loads.size() == static_cast<std::size_t>(2 * n));
    for (const LinkLoad& load : loads) {
      CHECK(cluster.link(load.link).kind == LinkKind::nvlink);
      CHECK(load.bytes_per_unit == 1.0);
    }
  }
}

TEST_CASE("loads are sorted, without duplicates, and do not depend on the order of the ranks") {
  for (const Setup& setup : setups())
    for (const Algorithm algorithm : {Algorithm::ring, Algorithm::tree}) {
      CAPTURE(setup.name);
      const auto loads = link_loads(setup.cluster, setup.gpus, algorithm);
      REQUIRE_FALSE(loads.empty());
      for (std::size_t i = 1; i < loads.size(); ++i) CHECK(loads[i - 1].link < loads[i].link);
      std::vector<int> backwards(setup.gpus.rbegin(), setup.gpus.rend());
      const auto again = link_loads(setup.cluster, backwards, algorithm);
      REQUIRE(again.size() == loads.size());
      for (std::size_t i = 0; i < loads.size(); ++i) {
        CHECK(again[i].link == loads[i].link);
        CHECK(again[i].bytes_per_unit == loads[i].bytes_per_unit);
      }
    }
}

TEST_CASE("what leaves through NICs enters through NICs, evenly, with the algorithm's volume") {
  for (const Setup& setup : setups()) {
    CAPTURE(setup.name);
    const int nodes = shape_of(setup.cluster, setup.gpus).nodes;
    for (const Algorithm algorithm : {Algorithm::ring, Algorithm::tree}) {
      const auto totals = network_totals(setup.cluster, link_loads(setup.cluster, setup.gpus, algorithm));
      CHECK(totals.size() == static_cast<std::size_t>(nodes > 1 ? nodes : 0));
      const double volume = algorithm == Algorithm::tree && nodes > 2 ? 2.0 : 1.0;
      for (const auto& [node, total] : totals) {
        CHECK(total.sends == doctest::Approx(volume));
        CHECK(total.receives == doctest::Approx(volume));
      }
    }
  }
}

TEST_CASE("NICs of a node share the traffic equally: k in use carry W/k each") {
  const auto nic_loads = [](const Cluster& cluster, const std::vector<int>& gpus) {
    std::vector<double> result;
    for (const LinkLoad& load : link_loads(cluster, gpus, Algorithm::ring))
      if (cluster.link(load.link).kind == LinkKind::nic) result.push_back(load.bytes_per_unit);
    return result;
  };
  const Cluster eight = build(with_nics(machine("h100", 32, 8, Intra::nvswitch), 8, 400));
  const Cluster four = build(with_nics(machine("h100", 32, 8, Intra::nvswitch), 4, 400));
  const Cluster many = build(with_nics(machine("h100", 32, 8, Intra::nvswitch), 32, 100));
  CHECK(shape_of(eight, first_gpus(32)).nics_per_node == 8);
  for (const double load : nic_loads(eight, first_gpus(32))) CHECK(load == doctest::Approx(1.0 / 8));
  for (const double load : nic_loads(four, first_gpus(32))) CHECK(load == doctest::Approx(1.0 / 4));
  for (const double load : nic_loads(many, first_gpus(32))) CHECK(load == doctest::Approx(1.0 / 32));
  // One GPU a node uses its own NICs only; two GPUs that share a NIC are limited to it.
  CHECK(nic_loads(eight, every(8, 4, 5)) == std::vector<double>(8, 1.0));
  for (const double load : nic_loads(many, every(8, 4, 5))) CHECK(load == doctest::Approx(1.0 / 4));
  CHECK(nic_loads(four, {0, 1, 8, 9}) == std::vector<double>(4, 1.0));
}

TEST_CASE("symmetric ranks carry equal loads") {
  for (const auto& cluster : {build(with_nics(machine("a100", 32, 8, Intra::nvswitch), 4, 200)),
                              build(with_nics(machine("a100", 16, 4, Intra::nvlink_mesh), 4, 100))})
    for (const Algorithm algorithm : {Algorithm::ring, Algorithm::tree}) {
      std::map<LinkKind, std::pair<double, double>> range;
      for (const LinkLoad& load : link_loads(cluster, first_gpus(cluster.gpu_count()), algorithm)) {
        auto [at, fresh] = range.try_emplace(cluster.link(load.link).kind, load.bytes_per_unit, load.bytes_per_unit);
        if (cluster.link(load.link).kind == LinkKind::pcie) continue;  // GPU's and NIC's links differ in kind of place
        at->second.first = std::min(at->second.first, load.bytes_per_unit);
        at->second.second = std::max(at->second.second, load.bytes_per_unit);
      }
      for (const auto& [kind, low_high] : range) CHECK(low_high.first == doctest::Approx(low_high.second));
    }
}

TEST_CASE("NVLS loads each link with S (1 + 1/n), a send only its route") {
  const Cluster cluster = build(machine("h100", 8, 8, Intra::nvswitch));
  for (const LinkLoad& load : link_loads(cluster, first_gpus(8), Algorithm::nvls))
    CHECK(load.bytes_per_unit == doctest::Approx(1.125));
  const auto send = link_loads(cluster, std::vector{5, 2}, Algorithm::direct);
  REQUIRE(send.size() == 2);
  CHECK(cluster.link_name(send[0].link).find("-> gpu 2") != std::string::npos);
  CHECK(cluster.link_name(send[1].link).find("gpu 5 ->") != std::string::npos);
}

TEST_CASE("a fabric that is a tree carries what rails keep below the leaf") {
  ClusterDescription description = with_nics(machine("h100", 64, 8, Intra::nvswitch), 8, 400);
  description.oversubscription = 4.0;
  const Cluster rails = build(description);
  description.rail_optimised = false;
  const Cluster tree = build(description);
  const double s = 4 * kGiB;
  CHECK(idle_us(Collective::all_reduce, s, tree, first_gpus(64)) >
        2.5 * idle_us(Collective::all_reduce, s, rails, first_gpus(64)));
}

TEST_CASE("the cap is never above what idle links allow") {
  for (const Setup& setup : setups())
    for (const Collective op : kOperations)
      for (const double bytes : {1e3, 1e6, 1e8, 1e10}) {
        CAPTURE(setup.name);
        CAPTURE(to_string(op));
        const CollectiveCost cost = cost_of(op, bytes, setup.cluster, setup.gpus);
        const double links = idle_rate(setup.cluster, link_loads(setup.cluster, setup.gpus, cost.algorithm));
        CHECK(cost.cap.value > 0.0);
        CHECK(cost.cap.value <= links * (1 + 1e-9));
        CHECK(cost.cap.value >= links * 0.38);
      }
  const Cluster staged = build([] {
    ClusterDescription d = machine("l40s", 8, 8, Intra::pcie);
    d.p2p = false;
    return d;
  }());
  const CollectiveCost send = cost_of(Collective::send, 1e9, staged, {0, 1});
  CHECK(send.cap.value <= idle_rate(staged, link_loads(staged, std::vector{0, 1}, Algorithm::direct)));
}

TEST_CASE("time grows with size, without jumps") {
  for (const Setup& setup : setups())
    for (const Collective op : kOperations) {
      CAPTURE(setup.name);
      CAPTURE(to_string(op));
      const GroupShape shape = shape_of(setup.cluster, setup.gpus);
      const CollectiveConstants c = constants();
      double before = 0.0;
      for (double bytes = 4; bytes < 1e11; bytes *= 1.01) {
        const double now = collective_cost(op, {bytes}, shape, setup.cluster, c).idle_time().value;
        CHECK(now >= before);
        if (before > 0.0) CHECK(now <= before * 1.0101);  // never faster than in proportion to the size
        before = now;
      }
    }
}

TEST_CASE("a faster link never makes a collective slower") {
  const auto faster = [](const Setup& setup, const char* what) {
    ClusterDescription d = setup.cluster.description();
    if (std::string(what) == "nvlink" && d.gpu.nvlink) d.gpu.nvlink->per_direction *= 2.0;
    if (std::string(what) == "nic") d.nic_rate *= 2.0;
    if (std::string(what) == "dram") d.host.dram_bandwidth_per_socket *= 2.0;
    return build(d);
  };
  for (const Setup& setup : setups())
    for (const char* what : {"nvlink", "nic", "dram"})
      for (const Collective op : kOperations)
        for (const double bytes : {1e4, 1e6, 3e7, 1e9}) {
          CAPTURE(setup.name);
          CAPTURE(what);
          CHECK(idle_us(op, bytes, faster(setup, what), setup.gpus) <=
                idle_us(op, bytes, setup.cluster, setup.gpus) * (1 + 1e-12));
        }
}

TEST_CASE("scaling every rate by k divides the fluid part by k") {
  LinkRates rates = link_rates(), doubled = rates;
  ClusterDescription d = with_nics(machine("h100", 32, 8, Intra::nvswitch), 8, 400), fast = d;
  fast.gpu.nvlink->per_direction *= 2.0;
  fast.nic_rate *= 2.0;
  for (const int g : {3, 4, 5}) {
    doubled.pcie_copy.set(g, 2 * rates.pcie_copy.at(g));
    doubled.socket.set(g, 2 * rates.socket.at(g));
  }
  const Cluster slow_cluster(d, rates), fast_cluster(fast, doubled);
  for (const int n : {8, 16, 32})
    CHECK(cost_of(Collective::all_reduce, 1e10, fast_cluster, first_gpus(n)).cap.value ==
          doctest::Approx(2 * cost_of(Collective::all_reduce, 1e10, slow_cluster, first_gpus(n)).cap.value));
}

TEST_CASE("a slow NIC or NVLink slows the groups that use it, and only those") {
  ClusterDescription description = with_nics(machine("h100", 32, 8, Intra::nvswitch), 8, 400);
  const Cluster whole = build(description);
  description.overrides = {{"nic", 1, 2, 0.5}};
  const Cluster slowed = build(description);
  const double s = kGiB;
  CHECK(idle_us(Collective::all_gather, s, slowed, every(8, 4, 2)) >
        1.5 * idle_us(Collective::all_gather, s, whole, every(8, 4, 2)));
  CHECK(idle_us(Collective::all_gather, s, slowed, every(8, 4, 3)) ==
        idle_us(Collective::all_gather, s, whole, every(8, 4, 3)));
  CHECK(idle_us(Collective::all_gather, s, slowed, first_gpus(8)) ==
        idle_us(Collective::all_gather, s, whole, first_gpus(8)));
}

TEST_CASE("published figures: bus bandwidth of large collectives, GB/s") {
  const auto check = [](const Cluster& cluster, int n, double size, double low, double high,
                        Collective op = Collective::all_reduce) {
    const double predicted = bus_bandwidth(op, size, cluster, first_gpus(n));
    CHECK(predicted >= low);
    CHECK(predicted <= high);
  };
  const Cluster a100 = build(machine("a100", 8, 8, Intra::nvswitch));
  check(a100, 2, kGiB, 190, 200);  // 197
  check(a100, 4, kGiB, 214, 226);  // 222
  check(a100, 8, kGiB, 223, 235);  // 229-235
  const Cluster h100 = build(machine("h100", 8, 8, Intra::nvswitch));
  check(h100, 8, 8 * kGiB, 470, 485);                                            // 475-483, NVLS
  check(h100, 4, 4 * kGiB, 360, 375);                                            // 363: no gain over the ring at four
  check(h100, 8, 16 * kGiB, 354, 366, Collective::all_gather);                   // 361
  check(build(machine("b200", 8, 8, Intra::nvswitch)), 8, 16 * kGiB, 825, 855);  // 838-846
  check(build(with_nics(machine("a100", 32, 8, Intra::nvswitch), 8, 200)), 16, 4 * kGiB, 183, 195);  // ring 188-191
  check(build(with_nics(machine("a100", 32, 8, Intra::nvswitch), 8, 200)), 32, 4 * kGiB, 183, 195);  // 191
  check(build(with_nics(machine("h100", 16, 8, Intra::nvswitch), 8, 400)), 16, 8 * kGiB, 455, 490);  // 467-487
  check(build(with_nics(machine("h100", 96, 8, Intra::nvswitch), 8, 400)), 96, 8 * kGiB, 355, 392);  // 387
  check(build(machine("v100-pcie", 2, 2, Intra::pcie_switch)), 2, kGiB, 11.4, 11.9);                 // 11.67
  check(build(machine("rtx4090", 8, 8, Intra::pcie)), 8, kGiB, 19.5, 21.5);  // 20.6 with P2P, two sockets
}

TEST_CASE("published figures: tiny all-reduces, microseconds, one process per GPU") {
  const auto tiny = [](const ClusterDescription& d, int n) {
    return idle_us(Collective::all_reduce, 8, build(d), first_gpus(n));
  };
  CHECK(tiny(machine("h100", 8, 8, Intra::nvswitch), 8) == doctest::Approx(15).epsilon(0.15));  // 12.9-16.8
  const ClusterDescription ib = with_nics(machine("h100", 128, 8, Intra::nvswitch), 8, 400);
  CHECK(tiny(ib, 16) == doctest::Approx(30).epsilon(0.1));   // 29-31
  CHECK(tiny(ib, 128) == doctest::Approx(66).epsilon(0.1));  // 62-72, NVIDIA/nccl issue 1469
  CHECK(tiny(with_nics(machine("v100", 32, 8, Intra::nvlink_mesh), 1, 100, NetworkKind::efa), 32) ==
        doctest::Approx(319).epsilon(0.2));  // p3dn: 163, 319, 631 for 2, 4, 8 nodes
}

TEST_CASE("the algorithm follows the machine") {
  const auto chosen = [](const Cluster& cluster, int n, double s) {
    return cost_of(Collective::all_reduce, s, cluster, first_gpus(n)).algorithm;
  };
  const Cluster h100 = build(with_nics(machine("h100", 32, 8, Intra::nvswitch), 8, 400));
  CHECK(chosen(h100, 8, 64 * 1024) == Algorithm::ring);
  CHECK(chosen(h100, 8, kGiB) == Algorithm::nvls);
  CHECK(chosen(h100, 2, kGiB) == Algorithm::ring);
  CHECK(chosen(h100, 16, kGiB) == Algorithm::tree);
  const Cluster a100 = build(with_nics(machine("a100", 32, 8, Intra::nvswitch), 4, 100));
  CHECK(chosen(a100, 8, kGiB) == Algorithm::ring);
  CHECK(chosen(a100, 16, kGiB) == Algorithm::ring);
  CHECK(chosen(a100, 32, kGiB) == Algorithm::ring);
  CHECK(chosen(build(with_nics(machine("v100", 32, 8, Intra::nvlink_mesh), 1, 100, NetworkKind::efa)), 16, kGiB) ==
        Algorithm::ring);
}

TEST_CASE("loads of a thousand ranks are quick to compute") {
  const Cluster cluster = build(with_nics(machine("h100", 1024, 8, Intra::nvswitch), 8, 400));
  double best = 1e9;
  std::size_t links = 0;
  for (int attempt = 0; attempt < 5; ++attempt) {
    const auto start = std::chrono::steady_clock::now();
    for (int group = 0; group < 128; ++group)
      links += link_loads(cluster, every(128, 8, group), Algorithm::ring).size();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  CHECK(links == 5u * 128 * 8 * 6);
  MESSAGE("128 groups of 8 ranks over 128 nodes: ", best * 1e3, " ms");
#ifdef NDEBUG
  CHECK(best < 20e-3);  // 2 ms on an idle machine; tests share theirs
#endif
}
