#include "sim/hardware/topology.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "sim/hardware/cluster.h"
#include "tests/support/text.h"

namespace foretrain {
namespace {

using testing::contains;

const std::string kMatrices = std::string(FORETRAIN_SOURCE_DIR) + "/tests/hardware/data/";
const DataFolder kCatalogue{FORETRAIN_SOURCE_DIR};

struct Outcome {
  std::optional<ClusterDescription> cluster;
  std::string said;
};

Outcome read_yaml(const std::string& yaml) {
  Diagnostics diagnostics;
  Outcome outcome;
  const auto node = config::parse_yaml(yaml, "t.yaml", diagnostics);
  REQUIRE(node);
  outcome.cluster = read_cluster(*node, kCatalogue, diagnostics);
  outcome.said = testing::shown(diagnostics);
  return outcome;
}

ClusterDescription machine_of(const std::string& file, const std::string& gpu, const std::string& more = "") {
  const Outcome outcome = read_yaml(fmt::format("{{topo: {}{}.txt, gpu: {}{}}}", kMatrices, file, gpu, more));
  CAPTURE(file);
  CAPTURE(outcome.said);
  REQUIRE(outcome.cluster);
  return *outcome.cluster;
}

std::string refusal_of(const std::string& file, const std::string& gpu) {
  const Outcome outcome = read_yaml(fmt::format("{{topo: {}{}.txt, gpu: {}}}", kMatrices, file, gpu));
  CHECK_FALSE(outcome.cluster);
  return outcome.said;
}

TEST_CASE("published matrices become the machines they were printed on") {
  struct Expected {
    const char *file, *gpu;
    int gpus;
    Intra intra;
    int sockets;  // 0: the matrix does not say
  };
  for (const Expected& e : {Expected{"a100-nvswitch", "a100-sxm4-80gb", 8, Intra::nvswitch, 0},
                            Expected{"h800-nvswitch", "h800-sxm5-80gb", 8, Intra::nvswitch, 0},
                            Expected{"h100-mesh", "h100-sxm5-80gb", 4, Intra::nvlink_mesh, 0},
                            Expected{"v100-mesh", "v100-sxm2-32gb", 4, Intra::nvlink_mesh, 0},
                            Expected{"v100-cube-mesh", "v100-sxm2-16gb", 8, Intra::nvlink_mesh, 0},
                            Expected{"a100-pcie-pairs", "a100-pcie-80gb", 8, Intra::nvlink_pairs, 2},
                            Expected{"rtxpro6000-pcie-switch", "rtxpro6000-96gb", 8, Intra::pcie_switch, 2},
                            Expected{"rtx4090-pcie", "rtx4090-24gb", 8, Intra::pcie, 0},
                            Expected{"l40s-two-sockets", "l40s-48gb", 4, Intra::pcie, 2},
                            Expected{"rtx3090-2", "rtx3090-24gb", 2, Intra::pcie, 1}}) {
    CAPTURE(e.file);
    const ClusterDescription c = machine_of(e.file, e.gpu);
    CHECK(c.gpus == e.gpus);
    CHECK(c.gpus_per_node == e.gpus);
    CHECK(std::string(to_string(c.intra)) == to_string(e.intra));
    if (e.sockets > 0) CHECK(c.host.sockets == e.sockets);
  }
  CHECK(machine_of("rtxpro6000-pcie-switch", "rtxpro6000-96gb").gpus_per_pcie_switch == 2);
}

TEST_CASE("what the scenario writes wins over the matrix") {
  const ClusterDescription c =
      machine_of("a100-nvswitch", "a100-80g", ", nodes: 2, nics: 4, nic_gbps: 200, intra: pcie");
  CHECK(c.gpus == 16);
  CHECK(c.nics == 4);
  CHECK(c.intra == Intra::pcie);
  CHECK(machine_of("a100-nvswitch", "a100-80g", ", nodes: 2, fabric: hdr-ib").nics == 8);
}

TEST_CASE("a machine from a matrix routes as the same machine described") {
  Diagnostics said;
  const std::optional<LinkRates> rates = load_link_rates(kCatalogue, said);
  REQUIRE(rates);
  const Cluster seen(machine_of("rtxpro6000-pcie-switch", "rtxpro6000-96gb"), *rates);
  const Outcome described =
      read_yaml("{gpu: rtxpro6000-96gb, gpus: 8, intra: pcie-switch, gpus_per_pcie_switch: 2, host: {sockets: 2}}");
  REQUIRE(described.cluster);
  const Cluster expected(*described.cluster, *rates);
  for (int a = 0; a < 8; ++a) {
    for (int b = 0; b < 8; ++b) {
      const auto one = seen.route(a, b), other = expected.route(a, b);
      REQUIRE(one.size() == other.size());
      for (std::size_t i = 0; i < one.size(); ++i)
        CHECK(seen.link_name(one[i].link) == expected.link_name(other[i].link));
    }
  }
  CHECK(seen.route(0, 1).size() == 2);  // through their own switch
}

TEST_CASE("NICs without a rate are no part of a single node") {
  CHECK(machine_of("v100-mesh", "v100-32g").nics == 0);
  CHECK(machine_of("v100-mesh", "v100-32g", ", nic_gbps: 100").nics == 1);
  const Outcome outcome = read_yaml("{gpu: t4, gpus: 2, nics: 4}");
  REQUIRE(outcome.cluster);
  Diagnostics said;
  const std::optional<LinkRates> rates = load_link_rates(kCatalogue, said);
  REQUIRE(rates);
  CHECK(Cluster(*outcome.cluster, *rates).gpu_count() == 2);
}

TEST_CASE("a matrix in the scenario itself is read too") {
  const Outcome outcome = read_yaml(
      "gpu: rtx3090-24gb\n"
      "topo: |2\n"
      "        GPU0  GPU1  CPU Affinity\n"
      "  GPU0   X    NV4   0-23\n"
      "  GPU1  NV4    X    0-23\n");
  CAPTURE(outcome.said);
  REQUIRE(outcome.cluster);
  CHECK(outcome.cluster->intra == Intra::nvlink_pairs);
}

TEST_CASE("what does not go together is refused with what would be right") {
  CHECK(contains(refusal_of("a100-nvswitch", "t4"),
                 "this host has NVLink, and t4-16gb has none; name the GPU of the host"));
  CHECK(contains(refusal_of("a100-nvswitch", "h100"),
                 "cluster.topo with these NVLinks between h100-sxm5-80gb (which has 18)"));
  CHECK(
      contains(refusal_of("uneven-sockets", "rtx3090"), "cluster.topo with 1, 4 GPUs on sockets is not simulated yet"));
  CHECK(contains(refusal_of("nowhere", "t4"), "nowhere.txt: error: cannot be read"));
  CHECK(contains(read_yaml("{topo: x.txt}").said, "cluster.gpu is missing; it must be given"));
  CHECK(contains(read_yaml("{topo: x.txt, gpu: t4, node: dgx-a100-80g}").said, "cluster has both node and topo"));
  CHECK(contains(read_yaml("{topo: [1], gpu: t4}").said, "cluster.topo: a list stands where text is expected"));
}

}  // namespace
}  // namespace foretrain
