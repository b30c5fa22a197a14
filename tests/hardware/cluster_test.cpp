#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>

#include "sim/hardware/node_graph.h"
#include "tests/hardware/machines.h"

using namespace foretrain;
using namespace foretrain::test;

namespace {

Cluster build(const ClusterDescription& description) { return Cluster(description, link_rates()); }

std::vector<ClusterDescription> every_kind_of_node() {
  std::vector<ClusterDescription> all = {
      machine("a100", 16, 8, Intra::nvswitch),          machine("a100", 8, 4, Intra::nvlink_mesh),
      machine("v100", 16, 8, Intra::nvlink_mesh),       machine("a100-pcie", 16, 8, Intra::nvlink_pairs),
      machine("rtxpro6000", 16, 8, Intra::pcie_switch), machine("l40s", 16, 8, Intra::pcie),
  };
  for (auto& d : all) d = with_nics(d, 4, 200);
  ClusterDescription staged = with_nics(machine("rtx4090", 16, 8, Intra::pcie), 1, 100, NetworkKind::ethernet);
  staged.p2p = false;
  all.push_back(staged);
  ClusterDescription bridged = with_nics(machine("rtx3090", 8, 4, Intra::nvlink_pairs), 1, 100);
  bridged.p2p = false;
  all.push_back(bridged);
  return all;
}

std::map<LinkKind, double> by_kind(const Cluster& cluster, const std::vector<Hop>& hops) {
  std::map<LinkKind, double> total;
  for (const Hop& hop : hops) total[cluster.link(hop.link).kind] += hop.bytes_per_byte;
  return total;
}

double rate_of_ring(const Cluster& cluster, const std::vector<int>& gpus) {
  double rate = 1e300;
  for (const Hop& hop : cluster.ring_within_node(gpus))
    rate = std::min(rate, cluster.link(hop.link).rate.value / hop.bytes_per_byte);
  return rate / kGiga;
}

}  // namespace

TEST_CASE("every pair of GPUs has a route, none crosses a link twice, and the way back mirrors it") {
  for (const ClusterDescription& description : every_kind_of_node()) {
    const Cluster cluster = build(description);
    CAPTURE(to_string(description.intra));
    CAPTURE(description.p2p);
    for (int a = 0; a < cluster.gpu_count(); ++a)
      for (int b = 0; b < cluster.gpu_count(); ++b) {
        const std::vector<Hop> hops = cluster.route(a, b);
        CHECK(hops.empty() == (a == b));
        std::set<LinkId> links;
        for (const Hop& hop : hops) {
          CHECK(links.insert(hop.link).second);
          CHECK(cluster.link(hop.link).rate.value > 0.0);
          CHECK(hop.bytes_per_byte > 0.0);
        }
        CHECK(by_kind(cluster, hops) == by_kind(cluster, cluster.route(b, a)));
      }
  }
}

TEST_CASE("routes to host memory use the GPU's own PCIe link and the DRAM") {
  for (const ClusterDescription& description : every_kind_of_node()) {
    const Cluster cluster = build(description);
    for (int gpu = 0; gpu < cluster.gpu_count(); ++gpu)
      for (const auto& hops : {cluster.route_to_host(gpu), cluster.route_from_host(gpu)}) {
        const auto kinds = by_kind(cluster, hops);
        CHECK(kinds.at(LinkKind::host_memory) == 1.0);
        CHECK(kinds.at(LinkKind::pcie) >= 1.0);
        CHECK(kinds.count(LinkKind::nvlink) == 0);
        CHECK(kinds.count(LinkKind::socket) == 0);
      }
  }
}

TEST_CASE("GPUs behind one PCIe switch share its uplink to host memory; their NIC does not use it") {
  const Cluster cluster = build(with_nics(machine("a100", 16, 8, Intra::nvswitch), 8, 200));
  const auto shared = [&](int a, int b) {
    int count = 0;
    for (const Hop& x : cluster.route_to_host(a))
      for (const Hop& y : cluster.route_to_host(b))
        if (x.link == y.link && cluster.link(x.link).kind == LinkKind::pcie) ++count;
    return count;
  };
  CHECK(shared(0, 1) == 1);
  CHECK(shared(0, 2) == 0);
  for (const Hop& out : cluster.leave(3, cluster.nic_of(3)))
    for (const Hop& up : cluster.route_to_host(2)) CHECK(out.link != up.link);
  CHECK(by_kind(cluster, cluster.leave(3, 3)) == std::map<LinkKind, double>{{LinkKind::pcie, 2}, {LinkKind::nic, 1}});
}

TEST_CASE("a copy through the root complex loads the socket link only across sockets") {
  const Cluster cluster = build(machine("l40s", 8, 8, Intra::pcie));
  CHECK(by_kind(cluster, cluster.route(0, 3)).count(LinkKind::socket) == 0);
  CHECK(by_kind(cluster, cluster.route(0, 4)).at(LinkKind::socket) == 1.0);
  CHECK(cluster.medium(0, 4) == Cluster::Medium::pcie_p2p);
}

TEST_CASE("bridges carry their pair and nothing else") {
  const Cluster cluster = build(machine("a100-pcie", 8, 8, Intra::nvlink_pairs));
  CHECK(cluster.medium(2, 3) == Cluster::Medium::nvlink);
  CHECK(cluster.medium(1, 2) == Cluster::Medium::pcie_p2p);
  CHECK(by_kind(cluster, cluster.route(2, 3)) == std::map<LinkKind, double>{{LinkKind::nvlink, 1}});
  CHECK(by_kind(cluster, cluster.route(1, 2)).count(LinkKind::nvlink) == 0);
}

TEST_CASE("without P2P a copy is written to and read from host memory and takes both GPUs' budgets") {
  ClusterDescription description = machine("l40s", 8, 8, Intra::pcie);
  description.p2p = false;
  const Cluster cluster = build(description);
  const auto near = by_kind(cluster, cluster.route(0, 1)), far = by_kind(cluster, cluster.route(0, 7));
  CHECK(near.at(LinkKind::host_staging) == 2.0);
  CHECK(near.at(LinkKind::host_memory) == 2.0);
  CHECK(near.at(LinkKind::pcie) == 2.0);
  CHECK(far.at(LinkKind::socket) == 1.0);
  CHECK(cluster.medium(0, 1) == Cluster::Medium::host_memory);
  // Each GPU of a ring sends and receives, so its budget of twice the ring's rate is used up by the ring.
  CHECK(rate_of_ring(cluster, {0, 1, 2, 3}) == doctest::Approx(14.5));

  // A card whose driver refuses P2P sits in a desktop or a cloud box with slow host paths.
  ClusterDescription desktop = machine("rtx4090", 8, 8, Intra::pcie);
  desktop.p2p = false;
  CHECK(rate_of_ring(build(desktop), {0, 1, 2, 3}) == doctest::Approx(3.2));
}

TEST_CASE("without GPUDirect the network goes through host memory") {
  const auto tcp = build(with_nics(machine("a100", 16, 8, Intra::nvswitch), 2, 100, NetworkKind::ethernet));
  CHECK(by_kind(tcp, tcp.leave(0, 0)).at(LinkKind::host_memory) == 2.0);
  CHECK(by_kind(tcp, tcp.enter(0, 0)).at(LinkKind::host_memory) == 2.0);
  const auto rdma = build(with_nics(machine("a100", 16, 8, Intra::nvswitch), 8, 200));
  CHECK(by_kind(rdma, rdma.leave(0, 0)).count(LinkKind::host_memory) == 0);
}

TEST_CASE("TCP sockets of a node have one limit, whatever the number of its NICs") {
  const auto network = [](int nics, double gbps) {
    return build(with_nics(machine("a100", 16, 8, Intra::nvswitch), nics, gbps, NetworkKind::ethernet));
  };
  const auto slowest = [](const Cluster& cluster, std::span<const Hop> hops) {
    double rate = 1e12;
    for (const Hop& hop : hops) {
      const Link link = cluster.link(hop.link);
      if (link.kind == LinkKind::nic) rate = std::min(rate, link.rate.value / hop.bytes_per_byte);
    }
    return rate / 1e9;
  };
  // One flow has its NIC, or the limit of the node where that is less.
  CHECK(slowest(network(1, 10), network(1, 10).leave(0, 0)) == doctest::Approx(0.94 * 1.25));
  CHECK(slowest(network(8, 25), network(8, 25).leave(0, 0)) == doctest::Approx(0.94 * 3.125));
  CHECK(slowest(network(1, 100), network(1, 100).leave(0, 0)) == doctest::Approx(4.0));
  // All flows of a node together have the limit, from two NICs of 25 Gbit/s on.
  const auto together = [&](int nics, double gbps) {
    const Cluster cluster = network(nics, gbps);
    std::map<std::size_t, double> load;
    for (int gpu = 0; gpu < 8; ++gpu) {
      for (const Hop& hop : cluster.leave(gpu, cluster.nic_of(gpu))) load[hop.link.index()] += hop.bytes_per_byte;
    }
    double seconds = 0;
    for (const auto& [link, bytes] : load) {
      const Link of = cluster.link(LinkId(link));
      if (of.kind == LinkKind::nic) seconds = std::max(seconds, bytes / (of.rate.value / 1e9));
    }
    return 8 / seconds;
  };
  CHECK(together(1, 25) == doctest::Approx(0.94 * 3.125));
  CHECK(together(2, 25) == doctest::Approx(4.0));
  CHECK(together(8, 25) == doctest::Approx(4.0));
  CHECK(together(8, 1) == doctest::Approx(0.94));
}

TEST_CASE("NICs are dealt evenly, and a GPU with two of its own spreads over both") {
  for (const int gpus : {1, 2, 3, 4, 7, 8})
    for (const int nics : {1, 2, 3, 4, 8, 16, 32}) {
      CAPTURE(gpus);
      CAPTURE(nics);
      std::vector<int> gpus_of(static_cast<std::size_t>(nics), 0);
      int most = 0, fewest = nics;
      for (int gpu = 0; gpu < gpus; ++gpu) {
        const Cluster::NicRange own = nics_dealt_to(gpu, gpus, nics);
        most = std::max(most, own.last - own.first);
        fewest = std::min(fewest, own.last - own.first);
        for (int nic = own.first; nic < own.last; ++nic) {
          ++gpus_of[static_cast<std::size_t>(nic)];
          if (nics >= gpus) CHECK(gpu_dealt_nic(nic, gpus, nics) == gpu);
        }
      }
      CHECK(fewest >= 1);
      CHECK(most - fewest <= 1);
      const auto [low, high] = std::minmax_element(gpus_of.begin(), gpus_of.end());
      CHECK(*low >= 1);
      CHECK(*high - *low <= 1);
      for (int nic = 0; nic < nics; ++nic) {
        const Cluster::NicRange own = nics_dealt_to(gpu_dealt_nic(nic, gpus, nics), gpus, nics);
        CHECK((own.first <= nic && nic < own.last));
      }
    }
  const Cluster cluster = build(with_nics(machine("a100", 16, 8, Intra::nvswitch), 16, 100));
  int ports = 0;
  for (const Hop& hop : cluster.route(1, 9))
    if (cluster.link(hop.link).kind == LinkKind::nic) {
      CHECK(hop.bytes_per_byte == doctest::Approx(0.5));
      ++ports;
    }
  CHECK(ports == 4);  // two at each end
}

TEST_CASE("a NIC of another GPU is reached over NVLink through that GPU") {
  const Cluster cluster = build(with_nics(machine("h100", 16, 8, Intra::nvswitch), 8, 400));
  const auto kinds = by_kind(cluster, cluster.leave(0, 6));
  CHECK(kinds.at(LinkKind::nvlink) == 2.0);
  CHECK(kinds.count(LinkKind::socket) == 0);
}

TEST_CASE("rates are the achievable ones of the GPU's generation") {
  CHECK(rate_of_ring(build(machine("a100", 8, 8, Intra::nvswitch)), {0, 1, 2, 3, 4, 5, 6, 7}) ==
        doctest::Approx(235).epsilon(0.01));
  CHECK(rate_of_ring(build(machine("h100", 8, 8, Intra::nvswitch)), {0, 1, 2, 3}) ==
        doctest::Approx(367).epsilon(0.01));
  // A mesh of four without switches: a group of two has a third of the links.
  CHECK(rate_of_ring(build(machine("a100", 4, 4, Intra::nvlink_mesh)), {0, 1, 2, 3}) ==
        doctest::Approx(235).epsilon(0.01));
  CHECK(rate_of_ring(build(machine("a100", 4, 4, Intra::nvlink_mesh)), {0, 3}) == doctest::Approx(78.3).epsilon(0.01));
}

TEST_CASE("the hybrid cube mesh has as many rings as measured bus bandwidths show") {
  const Cluster cluster = build(machine("v100", 8, 8, Intra::nvlink_mesh));
  // VIA-Research/vTrain, measured all-reduces on 8x V100 at 1 GiB: 22.5, 45.1, 85.4, 37.2, 45.7, 87.0, 134.5 GB/s for
  // GPUs 0..n-1.
  const double measured[] = {22.5, 45.1, 85.4, 37.2, 45.7, 87.0, 134.5};
  std::vector<int> gpus{0};
  for (int n = 2; n <= 8; ++n) {
    gpus.push_back(n - 1);
    CAPTURE(n);
    // Five have no ring of their own: a hop passes through a neighbour.
    CHECK(rate_of_ring(cluster, gpus) == doctest::Approx(measured[n - 2]).epsilon(n == 5 ? 0.21 : 0.06));
  }
  for (unsigned members = 0; members < 256; ++members) {
    int used[8][8] = {};
    for (const auto& ring : cube_mesh_rings(members)) {
      CHECK(std::set<int>(ring.begin(), ring.end()).size() == ring.size());
      if (ring.size() == 2) continue;
      for (std::size_t i = 0; i < ring.size(); ++i) {
        const int a = ring[i], b = ring[(i + 1) % ring.size()];
        CHECK(++used[a][b] <= cube_mesh_links(a, b));
        CHECK(++used[b][a] <= cube_mesh_links(b, a));
      }
    }
  }
}

TEST_CASE("each member of a ring sends and receives one byte per byte, whatever joins them") {
  for (const ClusterDescription& description : every_kind_of_node()) {
    const Cluster cluster = build(description);
    CAPTURE(to_string(description.intra));
    std::vector<int> gpus;
    for (int g = 0; g < description.gpus_per_node; ++g) gpus.push_back(g);
    std::map<std::string, double> out, in;
    for (const Hop& hop : cluster.ring_within_node(gpus)) {
      const std::string name = cluster.link_name(hop.link);
      for (const int g : gpus) {
        const std::string gpu = "gpu " + std::to_string(g);
        if (name.find(": " + gpu + " -> ") != std::string::npos) out[gpu] += hop.bytes_per_byte;
        if (name.find("-> " + gpu + " (") != std::string::npos) in[gpu] += hop.bytes_per_byte;
      }
    }
    for (const int g : gpus) {
      CHECK(out["gpu " + std::to_string(g)] == doctest::Approx(1.0));
      CHECK(in["gpu " + std::to_string(g)] == doctest::Approx(1.0));
    }
  }
}

TEST_CASE("an override slows the named links of the named node and no others") {
  ClusterDescription description = with_nics(machine("h100", 32, 8, Intra::nvswitch), 8, 400);
  const Cluster whole = build(description);
  description.overrides = {{"nic", 2, 5, 0.5}, {"nvlink", 1, 3, 0.25}, {"pcie", 0, 0, 0.1}, {"nic", 99, 0, 0.5}};
  const Cluster slowed = build(description);
  REQUIRE(whole.link_count() == slowed.link_count());
  std::map<LinkKind, int> changed;
  for (std::size_t l = 0; l < whole.link_count(); ++l) {
    const double factor = slowed.link(LinkId(l)).rate.value / whole.link(LinkId(l)).rate.value;
    if (factor == 1.0) continue;
    const LinkKind kind = slowed.link(LinkId(l)).kind;
    ++changed[kind];
    CHECK(factor == doctest::Approx(kind == LinkKind::nic ? 0.5 : kind == LinkKind::nvlink ? 0.25 : 0.1));
    const std::string node = kind == LinkKind::nic ? "node 2: nic 5" : kind == LinkKind::nvlink ? "node 1:" : "node 0:";
    CHECK(slowed.link_name(LinkId(l)).find(node) == 0);
  }
  CHECK(changed == std::map<LinkKind, int>{{LinkKind::nic, 2}, {LinkKind::nvlink, 2}, {LinkKind::pcie, 2}});
}

TEST_CASE("an oversubscribed fabric binds what leaves the leaf") {
  ClusterDescription description = with_nics(machine("h100", 32, 8, Intra::nvswitch), 8, 400);
  const Cluster full = build(description);
  CHECK(full.across_fabric(0, 0, 1, 3).empty());
  description.oversubscription = 4.0;
  const Cluster rails = build(description);
  CHECK(rails.across_fabric(0, 3, 1, 3).empty());
  REQUIRE(rails.across_fabric(0, 0, 1, 3).size() == 2);
  description.rail_optimised = false;
  const Cluster tree = build(description);
  const std::vector<Hop> hops = tree.across_fabric(0, 3, 1, 3);
  REQUIRE(hops.size() == 2);
  CHECK(tree.link(hops[0].link).rate.value == doctest::Approx(8 * 47.5e9 / 4));
  CHECK(tree.link_name(hops[1].link) == "node 1: down from spine (fabric)");
}

TEST_CASE("a description that cannot be a machine is refused") {
  CHECK_THROWS(build(machine("rtx4090", 8, 8, Intra::nvswitch)));
  CHECK_THROWS(build(machine("h100", 16, 8, Intra::nvswitch)));  // two nodes, no NIC
  CHECK_THROWS(build(machine("h100", 1000, 1000, Intra::nvswitch)));
  ClusterDescription no_dram = machine("h100", 8, 8, Intra::nvswitch);
  no_dram.host.dram_bandwidth_per_socket = {};
  CHECK_THROWS(build(no_dram));
  const Cluster one = build(machine("h100", 8, 8, Intra::nvswitch));
  CHECK_THROWS(one.route(0, 8));
  CHECK_THROWS(one.leave(0, 0));
  CHECK_THROWS(one.link(LinkId(one.link_count())));
}

TEST_CASE("every node of the catalogue becomes a cluster whose GPUs all reach each other") {
  const DataFolder data{FORETRAIN_SOURCE_DIR};
  const config::Catalogue nodes(data.path + "/hardware/nodes", "node");
  CHECK(nodes.names().size() > 20);
  for (const std::string& name : nodes.names()) {
    CAPTURE(name);
    Diagnostics diagnostics;
    const auto yaml = config::parse_yaml("{node: " + name + ", nodes: 1}", "test.yaml", diagnostics);
    const auto description = read_cluster(*yaml, data, diagnostics);
    if (!description) {
      MESSAGE(name, ": ", to_string(diagnostics.all().front()));
      continue;
    }
    const Cluster cluster = build(*description);
    for (int a = 0; a < cluster.gpu_count(); ++a)
      for (int b = 0; b < cluster.gpu_count(); ++b) CHECK(cluster.route(a, b).empty() == (a == b));
  }
}

TEST_CASE("a large cluster costs little: links are computed, not stored") {
  const Cluster cluster = build(with_nics(machine("h100", 32768, 8, Intra::nvswitch), 8, 400));
  CHECK(cluster.link_count() / 4096 * 4096 == cluster.link_count());
  const std::vector<Hop> hops = cluster.route(7, 32767);
  CHECK(cluster.link_name(hops.back().link) == "node 4095: pcie switch 3 -> gpu 7 (pcie)");
}
