#include "sim/symmetry/classes.h"

#include <doctest/doctest.h>

using namespace foretrain;

namespace {

Cluster nodes(int count, int nics, double slow_nic = 1.0) {
  Diagnostics diagnostics;
  const DataFolder data{FORETRAIN_SOURCE_DIR};
  ClusterDescription d;
  d.gpu = *load_gpu(data, "a100-sxm4-80gb", {}, diagnostics);
  d.gpus = 8 * count;
  d.gpus_per_node = 8;
  d.intra = Intra::nvswitch;
  d.nics = nics;
  d.nic_rate = gigabits_per_second(200);
  d.host.dram_bandwidth_per_socket = gigabytes_per_second(200);
  if (slow_nic != 1.0) d.overrides.push_back({"nic", 1, 2, slow_nic});
  return Cluster(d, *load_link_rates(data, diagnostics));
}

std::vector<CommunicatorGroup> rails(const Cluster& cluster) {
  std::vector<CommunicatorGroup> groups;
  for (int gpu = 0; gpu < 8; ++gpu) {
    CommunicatorGroup group;
    for (int node = 0; node < cluster.node_count(); ++node) group.ranks.push_back(node * 8 + gpu);
    group.loads = link_loads(cluster, group.ranks, Algorithm::ring);
    groups.push_back(group);
  }
  return groups;
}

}  // namespace

TEST_CASE("a symmetric job is one class of ranks, groups and each kind of link") {
  const Cluster cluster = nodes(4, 8);
  const Classes classes = refine(std::vector<std::uint64_t>(32, 0), rails(cluster), cluster);
  CHECK(classes.ranks.size() == 1);
  CHECK(classes.ranks[0].multiplicity == 32);
  REQUIRE(classes.groups.size() == 1);
  CHECK(classes.groups[0].multiplicity == 8);
}

TEST_CASE("shared links carry all groups of a class") {
  const Cluster cluster = nodes(4, 2);  // four GPUs a NIC
  const Classes classes = refine(std::vector<std::uint64_t>(32, 0), rails(cluster), cluster);
  double most = 0;
  for (const auto& link : classes.links) {
    double all = 0;
    for (const auto& use : link.uses) all += use.bytes_per_unit;
    most = std::max(most, all);
  }
  CHECK(most == doctest::Approx(4.0));
}

TEST_CASE("a slow link splits off exactly what meets it") {
  const Cluster cluster = nodes(4, 8, 0.5);
  const Classes classes = refine(std::vector<std::uint64_t>(32, 0), rails(cluster), cluster);
  CHECK(classes.groups.size() == 2);  // the rail with the slow NIC, and the others
  const auto slow = classes.class_of_group[2];
  CHECK(classes.groups[slow].multiplicity == 1);
  CHECK(classes.class_of_rank[2] != classes.class_of_rank[3]);
  CHECK(classes.class_of_rank[3] == classes.class_of_rank[4]);
}

TEST_CASE("own colours fold nothing") {
  const Cluster cluster = nodes(2, 8);
  std::vector<std::uint64_t> colours(16);
  for (std::size_t i = 0; i < colours.size(); ++i) colours[i] = i;
  const Classes classes = refine(colours, rails(cluster), cluster);
  CHECK(classes.ranks.size() == 16);
  CHECK(classes.groups.size() == 8);
}
