#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "sim/hardware/cluster.h"
#include "tests/hardware/catalogue_support.h"
#include "tests/hardware/machines.h"

using namespace foretrain;
using namespace foretrain::test;

namespace {

bool assumes(const ClusterDescription& cluster, std::string_view text) {
  return std::any_of(cluster.assumptions.begin(), cluster.assumptions.end(),
                     [&](const Message& a) { return a.english().find(text) != std::string::npos; });
}

// Checks that the map is refused with exactly one error, at the place and in the words given.
void refused(std::string_view yaml, int column, const std::vector<std::string>& words) {
  Diagnostics diagnostics;
  const auto cluster = read(yaml, diagnostics);
  CAPTURE(yaml);
  const std::string text = all_text(diagnostics);
  CAPTURE(text);
  CHECK(!cluster.has_value());
  CHECK(diagnostics.error_count() == 1);
  CHECK(text.find("scenario.yaml:1:" + std::to_string(column) + ": error: ") != std::string::npos);
  for (const std::string& word : words) {
    CAPTURE(word);
    CHECK(text.find(word) != std::string::npos);
  }
}

int column_of(std::string_view yaml, std::string_view value) { return static_cast<int>(yaml.find(value)) + 1; }

void refused_at(std::string_view yaml, std::string_view value, const std::vector<std::string>& words) {
  refused(yaml, column_of(yaml, value), words);
}

}  // namespace

TEST_CASE("every catalogue node makes a cluster") {
  const std::vector<std::string> names = stems("nodes");
  REQUIRE(names.size() >= 56);
  for (const std::string& name : names) {
    CAPTURE(name);
    Diagnostics diagnostics;
    const auto one = read("{node: " + name + "}", diagnostics);
    INFO(all_text(diagnostics));
    REQUIRE(one.has_value());
    CHECK(diagnostics.all().empty());
    CHECK(one->node_name == name);
    CHECK(one->gpus == one->gpus_per_node);
    CHECK(one->nodes() == 1);
    CHECK(one->host.sockets >= 1);
    CHECK(one->host.dram_bandwidth_per_socket.value > 10e9);
    if (one->host.dram) CHECK(one->host.dram->value >= one->gpu.memory.value);
    CHECK(one->host.pcie_generation <= one->gpu.pcie_generation);
    if (one->nics > 0) CHECK(one->nic_rate.value >= 1e8);
  }
}

TEST_CASE("every catalogue file of nodes and fabrics says where it comes from") {
  for (const char* folder : {"nodes", "fabrics"}) {
    for (const std::string& name : stems(folder)) {
      CAPTURE(name);
      Diagnostics diagnostics;
      const auto node =
          config::parse_yaml_file(data_folder().path + "/hardware/" + folder + "/" + name + ".yaml", diagnostics);
      REQUIRE(node.has_value());
      REQUIRE(node->find("source") != nullptr);
      CHECK(!node->find("source")->scalar().empty());
      CHECK(node->find("description") != nullptr);
    }
  }
}

TEST_CASE("every fabric joins two nodes") {
  for (const std::string& name : stems("fabrics")) {
    CAPTURE(name);
    const ClusterDescription cluster = good("{gpu: a100-80g, gpus: 16, gpus_per_node: 8, fabric: " + name + "}");
    CHECK(cluster.fabric_name == name);
    CHECK(cluster.nodes() == 2);
    CHECK(cluster.nics >= 1);
    CHECK(cluster.nic_rate.value >= 1e9);
  }
}

TEST_CASE("a catalogue node, several of them, and fields that override it") {
  const ClusterDescription two = good("{node: dgx-a100-80g, nodes: 2}");
  CHECK(two.gpus == 16);
  CHECK(two.gpus_per_node == 8);
  CHECK(two.intra == Intra::nvswitch);
  CHECK(two.nics == 8);
  CHECK(two.nic_rate.value == 25e9);
  CHECK(two.network == NetworkKind::infiniband);
  CHECK(two.host.dram->value == 2048e9);
  CHECK(two.host.dram_bandwidth_per_socket.value == doctest::Approx(204.8e9));
  CHECK(two.assumptions.empty());

  const ClusterDescription mixed = good("{node: dgx-a100-80g, gpus: 32, nic_gbps: 100, host: {dram_gb: 1TB}}");
  CHECK(mixed.gpus == 32);
  CHECK(mixed.nodes() == 4);
  CHECK(mixed.nic_rate.value == 12.5e9);
  CHECK(mixed.host.dram->value == 1e12);
  CHECK(mixed.host.cpu == "2 x EPYC 7742");

  CHECK(good("{node: DGX_A100_640GB}").node_name == "dgx-a100-80g");
  // Part of a node.
  CHECK(good("{node: dgx-h100, gpus: 4}").gpus_per_node == 8);
}

TEST_CASE("a fabric replaces a node's network but not its NIC count") {
  const ClusterDescription cluster = good("{node: aws-p4d-24xlarge, nodes: 2, fabric: hdr-rails}");
  CHECK(cluster.nics == 4);
  CHECK(cluster.nic_rate.value == 25e9);
  CHECK(cluster.network == NetworkKind::infiniband);

  const ClusterDescription generic = good("{gpu: h100, gpus: 64, gpus_per_node: 8, fabric: ndr-rails}");
  CHECK(generic.nics == 8);
  CHECK(generic.nic_rate.value == 50e9);
  const ClusterDescription slow = good("{gpu: h100, gpus: 64, gpus_per_node: 8, fabric: 10gbe}");
  CHECK(slow.nics == 1);
  CHECK(slow.network == NetworkKind::ethernet);
  CHECK(!slow.rail_optimised);
}

TEST_CASE("the generic form, with units") {
  const ClusterDescription cluster = good(
      "{gpu: a100-sxm4-40gb, gpus: 16, gpus_per_node: 8, intra: nvswitch, nics: 4, nic_gbps: 200Gb/s, "
      "net: roce, oversubscription: 2, rail_optimised: false, host: {cpu: epyc, sockets: 2, dram_gb: 512GiB, "
      "dram_gbps: 400, pcie: gen4, nvme_read_gbps: 6.5GB/s, nvme_write_gbps: 3}, power_limit_w: 300}");
  CHECK(cluster.nic_rate.value == 25e9);
  CHECK(cluster.network == NetworkKind::roce);
  CHECK(cluster.oversubscription == 2);
  CHECK(!cluster.rail_optimised);
  CHECK(cluster.host.dram->value == 512 * kGiB);
  CHECK(cluster.host.dram_bandwidth_per_socket.value == 200e9);
  CHECK(cluster.host.nvme_read->value == 6.5e9);
  CHECK(cluster.power_limit_watts == 300);
  // The card itself stays as the catalogue has it: the simulation applies the limit.
  CHECK(cluster.gpu.achieved.matmul == good("{gpu: a100-sxm4-40gb, gpus: 1}").gpu.achieved.matmul);
  CHECK(cluster.assumptions.empty());
}

TEST_CASE("measured runs may use part of a node") {
  const ClusterDescription part = good("{gpu: v100-sxm2-32gb, gpus: 2, gpus_per_node: 8, intra: nvlink-mesh}");
  CHECK(part.gpus == 2);
  CHECK(part.gpus_per_node == 8);
  CHECK(part.nodes() == 1);
  CHECK(good("{gpu: a100-pcie-40gb, gpus: 2, gpus_per_node: 1, intra: pcie, nics: 1, nic_gbps: 25, net: ethernet}")
            .nodes() == 2);
}

TEST_CASE("defaults are recorded where they matter, and only there") {
  const ClusterDescription twelve = good("{gpu: 4090, gpus: 2}");
  CHECK(twelve.gpus_per_node == 2);
  CHECK(twelve.intra == Intra::pcie);
  CHECK(!twelve.p2p);
  CHECK(assumes(twelve, "gpus_per_node is taken as 2"));
  CHECK(assumes(twelve, "intra is taken as pcie"));
  CHECK(assumes(twelve, "host.dram_gbps is taken as 204.8"));
  CHECK(assumes(twelve, "host.pcie is taken as gen4"));

  const ClusterDescription h100 = good("{gpu: h100, gpus: 8}");
  CHECK(h100.intra == Intra::nvswitch);
  CHECK(h100.gpus_per_node == 8);
  CHECK(!assumes(h100, "host"));
  CHECK(good("{gpu: t4, gpus: 1}").assumptions.empty());
  // A bridge is optional hardware: not assumed.
  CHECK(good("{gpu: 3090, gpus: 2}").intra == Intra::pcie);
  CHECK(good("{gpu: mi300x, gpus: 8}").intra == Intra::nvlink_mesh);

  const ClusterDescription sixteen = good("{gpu: h100, gpus: 16, nics: 8, nic_gbps: 400}");
  CHECK(sixteen.nodes() == 2);
  CHECK(assumes(sixteen, "net is taken as infiniband"));
  CHECK(assumes(good("{gpu: t4, gpus: 2, gpus_per_node: 1, nics: 1, nic_gbps: 10}"), "net is taken as ethernet"));
  CHECK(good("{gpu: h100, gpus: 16, nics: per-gpu, nic_gbps: 400, net: roce}").nics == 8);
  CHECK(good("{gpu: h100, gpus: 16, nodes: 4, nics: 1, nic_gbps: 400, net: roce}").gpus_per_node == 4);
}

TEST_CASE("a link runs at the lower of the host's and the card's PCIe generation") {
  CHECK(good("{gpu: 4090, gpus: 1, host: {pcie: gen3}}").host.pcie_generation == 3);
  CHECK(good("{gpu: 4090, gpus: 1, host: {pcie: gen5}}").host.pcie_generation == 4);
}

TEST_CASE("what is not simulated is refused by name") {
  const auto feature = [](std::string_view yaml) {
    Diagnostics diagnostics;
    CHECK(!read(yaml, diagnostics).has_value());
    REQUIRE(diagnostics.error_count() == 1);
    REQUIRE(diagnostics.all().front().severity == Severity::unsupported);
    return diagnostics.all().front().message.english();
  };
  CHECK(feature("{gpu: gb200, gpus: 576, gpus_per_node: 4, intra: nvswitch, nics: 4, nic_gbps: 400, net: infiniband, "
                "nvlink_domain: 576}") == "cluster.nvlink_domain");
}

TEST_CASE("hosts of one NVLink domain are one node of the cluster") {
  CHECK(good("{node: gb200-nvl72}").gpus_per_node == 4);
  const ClusterDescription rack = good("{node: gb200-nvl72, nodes: 18}");
  CHECK(rack.gpus_per_node == 72);
  CHECK(rack.gpus_per_host == 4);
  CHECK(rack.nodes() == 1);
  CHECK(rack.nics == 72);
  CHECK(rack.host.sockets == 36);
  CHECK(rack.host.cores == 36 * 72);
  CHECK(rack.host.dram->value == doctest::Approx(18 * 960e9));
  const ClusterDescription four =
      good("{node: gb200-nvl72, nodes: 64, overrides: [{link: nic, node: 17, index: 3, factor: 0.5}]}");
  CHECK(four.gpus_per_node == 64);  // four domains, of which 64 of 72 GPUs each
  CHECK(four.nodes() == 4);
  REQUIRE(four.overrides.size() == 1);
  CHECK(four.overrides[0].node == 1);
  CHECK(four.overrides[0].index == 4 + 3);
  const Cluster cluster(four, link_rates());
  CHECK(cluster.medium(0, 63) == Cluster::Medium::nvlink);
  CHECK(cluster.medium(63, 64) == Cluster::Medium::network);
  CHECK(cluster.nic_of(63) == 63);
  for (const Hop& hop : cluster.leave(63, 63)) CHECK(cluster.link(hop.link).kind != LinkKind::socket);
  // Two GPUs share the memory of a Grace, over NVLink-C2C, and no more.
  const Cluster whole(rack, link_rates());
  std::map<std::string, int> sharing;
  for (int gpu = 0; gpu < 72; ++gpu) {
    const std::vector<Hop> way = whole.route_to_host(gpu);
    REQUIRE(way.size() == 2);
    CHECK(whole.link(way.front().link).kind == LinkKind::nvlink);
    CHECK(whole.link(way.front().link).datasheet.value == 450e9);
    CHECK(whole.link(way.back().link).datasheet.value == 512e9);
    ++sharing[whole.link_name(way.back().link)];
  }
  CHECK(sharing.size() == 36);
  for (const auto& [dram, gpus] : sharing) CHECK(gpus == 2);
}

TEST_CASE("bad maps are refused at the right place, with what would be right") {
  refused_at("{gpu: 4090, gpus: 8, intra: nvswitch}", "nvswitch", {"rtx4090-24gb has no NVLink", "pcie-switch, pcie"});
  refused_at("{gpu: a100-pcie-80gb, gpus: 4, intra: nvswitch}", "nvswitch", {"not built with", "nvlink-pairs"});
  refused_at("{gpu: mi300x, gpus: 8, intra: nvswitch}", "nvswitch", {"nvlink-mesh"});
  refused_at("{gpu: a100-80g, gpus: 16, gpus_per_node: 16, intra: nvlink-mesh}", "nvlink-mesh", {"at most 8"});
  refused_at("{gpu: 3090, gpus: 3, gpus_per_node: 3, intra: nvlink-pairs}", "nvlink-pairs", {"even"});
  refused_at("{gpu: h100, gpus: 12, nics: 8, nic_gbps: 400, net: roce}", "12", {"8 or 16", "gpus_per_node: 6"});
  refused_at("{gpu: h100, gpus: 0}", "0}", {"gpus=0", "1"});
  refused_at("{gpu: h100, gpus: 2M}", "2M", {"1000000"});
  refused_at("{gpu: h100, gpus: 8, gpus_per_node: 257}", "257", {"256"});
  refused_at("{gpu: h100, gpus: 256, nics: 256, nic_gbps: 100, net: roce, nvlink_domain: 256}", "256, nic_gbps",
             {"8192 NICs", "at most 256"});
  refused_at("{gpu: h100, gpus: eight}", "eight", {"whole number"});
  refused_at("{gpu: h100, gpus: 8, intra: nvlink}", "nvlink}", {"nvswitch, nvlink-mesh"});
  refused_at("{gpu: h100, gpus: 8, net: infinband}", "infinband", {"did you mean 'infiniband'"});
  refused_at("{gpu: h100, gpus: 8, gpus_per_nod: 4}", "gpus_per_nod:", {"did you mean 'gpus_per_node'"});
  refused_at("{gpu: h100, gpus: 8, host: {dram_gb: big}}", "big", {"dram_gb"});
  refused_at("{gpu: h100, gpus: 8, host: {dram: 4}}", "dram:", {"cluster.host", "dram_gb"});
  refused_at("{gpu: h100, gpus: 8, host: {pcie: 4}}", "4}}", {"gen3, gen4, gen5"});
  refused_at("{gpu: h100, gpus: 8, host: big}", "big", {"map"});
  refused_at("{gpu: h101, gpus: 8}", "h101", {"unknown GPU 'h101'", "h100"});
  refused_at("{node: dgx-h10, nodes: 2}", "dgx-h10", {"unknown node", "dgx-h100"});
  refused_at("{gpu: h100, gpus: 16, fabric: hdr-rail}", "hdr-rail", {"unknown fabric", "hdr-rails"});
  refused_at("{gpu: h100, gpus: 8, power_limit_w: 0}", "0}", {"power_limit_w"});
  refused_at("{gpu: h100, gpus: 8, oversubscription: 0.5}", "0.5", {"oversubscription"});
  refused_at("{node: dgx-h100, nodes: 2, gpus: 32}", "2,", {"cluster.nodes=2", "32 GPUs"});
  refused_at("{gpu: 4090, gpus: 8, intra: pcie-switch, gpus_per_pcie_switch: 3}", "3}", {"divide"});
  refused_at("{node: dgx-h100, nodes: 500k}", "500k", {"1000000"});
  refused("{gpus: 8}", 1, {"cluster.gpu is missing"});
  refused("{gpu: h100}", 1, {"cluster.gpus is missing"});
  refused("[1, 2]", 1, {"map"});
  // A catalogue entry's own keys mean nothing in a scenario.
  refused_at("{node: dgx-h100, source: me}", "source", {"unknown key 'source'"});
}

TEST_CASE("several nodes of which nothing else is said are those that the GPU mostly comes in") {
  const ClusterDescription two = good("{gpu: h100, gpus: 16}");
  CHECK(two.gpus_per_node == 8);
  CHECK(two.nics == 8);
  CHECK(two.nic_rate == gigabits_per_second(400));
  CHECK(two.network == NetworkKind::infiniband);
  const auto said = [](const ClusterDescription& cluster) {
    return std::any_of(cluster.assumptions.begin(), cluster.assumptions.end(),
                       [](const Message& m) { return foretrain::testing::contains(m.english(), "taken as those of"); });
  };
  CHECK(said(two));
  CHECK_FALSE(said(good("{gpu: h100, gpus: 8}")));
  CHECK_FALSE(said(good("{gpu: h100, gpus: 16, fabric: 25gbe}")));
  // Fewer GPUs in a node have fewer of its NICs.
  CHECK(good("{gpu: h100, gpus: 16, gpus_per_node: 4}").nics == 4);
  CHECK(good("{gpu: a100-80g, gpus: 16, nodes: 4}").nics == 4);
  CHECK(good("{gpu: h100, gpus: 3, nodes: 3}").nics == 1);
  // A rack that NVLink joins is one.
  CHECK(good("{gpu: gb200, gpus: 72}").gpus_per_node == 72);
}

TEST_CASE("the usual node of a GPU is one of that GPU, with a network") {
  Diagnostics diagnostics;
  const config::Catalogue gpus(data_folder().path + "/hardware/gpus", "GPU");
  for (const std::string& name : gpus.names()) {
    CAPTURE(name);
    const auto gpu = load_gpu(data_folder(), name, {}, diagnostics);
    REQUIRE(gpu);
    if (gpu->usual_node.empty()) continue;
    const ClusterDescription two = good("{node: " + gpu->usual_node + ", nodes: 2}");
    CHECK(two.gpu.name == name);
    CHECK(two.node_name == gpu->usual_node);
  }
}

TEST_CASE("else several nodes need a network that is said, not assumed") {
  refused("{gpu: h100, gpus: 32, gpus_per_node: 16}", 1, {"32 GPUs in 2 nodes need a network"});
  refused("{gpu: 4090, gpus: 16}", 1, {"16 GPUs in 2 nodes need a network", "nics and nic_gbps are missing", "fabric"});
  refused("{gpu: h100, gpus: 16, nics: 8}", 1, {"nic_gbps is missing"});
  refused_at("{gpu: h100, gpus: 16, nics: 0, nic_gbps: 400}", "0, nic_gbps", {"nics is missing"});
  refused("{node: 8x-a40, nodes: 2}", 1, {"need a network"});
  CHECK(good("{node: 8x-a40, nodes: 2, fabric: 25gbe}").nics == 1);
}

TEST_CASE("P2P on a card whose driver refuses it is a warning") {
  Diagnostics diagnostics;
  const auto cluster = read("{gpu: 4090, gpus: 2, p2p: true}", diagnostics);
  REQUIRE(cluster.has_value());
  CHECK(cluster->p2p);
  REQUIRE(diagnostics.all().size() == 1);
  CHECK(diagnostics.all().front().severity == Severity::warning);
  CHECK(diagnostics.all().front().position.column == 27);

  Diagnostics quiet;
  CHECK(!read("{gpu: l40s, gpus: 2, p2p: false}", quiet)->p2p);
  CHECK(quiet.all().empty());
}

TEST_CASE("overrides slow a link that exists") {
  const ClusterDescription cluster = good(
      "{node: dgx-a100-80g, nodes: 2, overrides: [{link: nic, node: 1, index: 7, factor: 0.5}, "
      "{link: nvlink, node: 0, index: 3, factor: 0.25}]}");
  REQUIRE(cluster.overrides.size() == 2);
  CHECK(cluster.overrides[0].link == "nic");
  CHECK(cluster.overrides[0].node == 1);
  CHECK(cluster.overrides[0].index == 7);
  CHECK(cluster.overrides[1].factor == 0.25);

  const auto slow = [](const std::string& entry) { return "{node: dgx-a100-80g, overrides: [{" + entry + "}]}"; };
  refused_at(slow("link: nic, node: 1, index: 0, factor: 0.5"), "1,", {"node"});
  refused_at(slow("link: nic, node: 0, index: 8, factor: 0.5"), "8,", {"index"});
  refused_at(slow("link: nic, node: 0, index: 0, factor: 1.5"), "1.5", {"factor"});
  refused_at(slow("link: nic, node: 0, index: 0, factor: 0"), "0}]", {"factor"});
  refused_at(slow("link: nick, node: 0, index: 0, factor: 1"), "nick", {"nvlink, pcie, nic"});
  refused_at("{gpu: 4090, gpus: 2, overrides: [{link: nvlink, node: 0, index: 0, factor: 0.5}]}", "nvlink",
             {"no NVLink"});
  refused_at("{gpu: h100, gpus: 8, overrides: [{link: nic, node: 0, index: 0, factor: 0.5}]}", "nic,", {"no NIC"});
  refused_at("{gpu: h100, gpus: 8, overrides: slow}", "slow", {"list"});
  refused_at("{gpu: h100, gpus: 8, overrides: [7]}", "7]", {"must be a map"});
}

TEST_CASE("overrides make GPUs differ, later entries changing earlier ones") {
  const ClusterDescription cluster = good(
      "{node: dgx-a100-80g, nodes: 3, overrides: [{gpu: h100-sxm5-80gb, nodes: [1, 2]}, {node: 2, index: 4, factor: "
      "0.5}, "
      "{node: 0, index: 7, power_limit_w: 300}, {gpu: a100-80g, node: 1}]}");
  CHECK(cluster.gpu_at(0).name == "a100-sxm4-80gb");
  CHECK(cluster.gpu_at(8).name == "a100-sxm4-80gb");
  CHECK(cluster.gpu_at(20).name == "h100-sxm5-80gb");
  CHECK(cluster.oddity_of(20).speed == 0.5);
  CHECK(cluster.oddity_of(21).speed == 1.0);
  CHECK(cluster.odd_gpus.size() == 9);  // node 2, and the GPU with a power limit
  const auto bf16 = static_cast<std::size_t>(Precision::bf16);
  CHECK(cluster.gpu_at(7).achieved.matmul[bf16] ==
        doctest::Approx(cluster.gpu.achieved.matmul[bf16] * std::pow(300.0 / 400, 0.67)));
  // The limit of the job holds for GPUs of other kinds too.
  const ClusterDescription limited =
      good("{node: dgx-a100-80g, nodes: 2, power_limit_w: 350, overrides: [{gpu: h100-sxm5-80gb, node: 1}]}");
  CHECK(limited.gpu_at(8).achieved.matmul[bf16] < good("{gpu: h100, gpus: 1}").gpu.achieved.matmul[bf16]);

  const Cluster graph(cluster, link_rates());
  CHECK(graph.has_multicast(16));
  CHECK(!graph.has_multicast(0));
  const auto nvlink = [&](int from, int to) { return graph.link(graph.route(from, to).front().link).datasheet.value; };
  CHECK(nvlink(0, 1) == 300e9);
  CHECK(nvlink(8, 9) == 300e9);
  CHECK(nvlink(16, 17) == 450e9);
  // Hosts that share an NVLink domain are joined without renumbering GPUs.
  const ClusterDescription rack =
      good("{node: gb200-nvl72, nodes: 18, overrides: [{node: 17, index: 3, factor: 0.9}]}");
  CHECK(rack.oddity_of(71).speed == 0.9);

  const auto odd = [](const std::string& entry) { return "{node: dgx-a100-80g, overrides: [{" + entry + "}]}"; };
  refused_at(odd("node: 0, index: 8, factor: 0.5"), "8,", {"index"});
  refused_at(odd("node: 1, factor: 0.5"), "1,", {"node"});
  refused_at(odd("node: 0, factor: 0"), "0}]", {"factor"});
  refused_at(odd("node: 0, index: 1"), "0, index", {"gpu, power_limit_w or factor"});
  refused_at(odd("gpu: rtx4090, node: 0"), "rtx4090", {"nvswitch"});
  refused_at(odd("gpu: h100, node: 0, index: 1"), "h100", {"do not fit together"});
  refused_at(odd("gpu: h1000, node: 0"), "h1000", {"unknown GPU"});
  refused_at(odd("node: 0, nodes: [0], factor: 0.5"), "0, nodes", {"either node or nodes"});
  refused_at("{gpu: a100-pcie-80gb, gpus: 2, intra: pcie, overrides: [{gpu: rtx4090, node: 0, index: 1}]}", "rtx4090",
             {"p2p: false"});
  refused_at("{gpu: h100, gpus: 8, overrides: [{gpu: gh200-96gb, node: 0}]}", "gh200", {"module"});
  refused_at("{gpu: h100, gpus: 8, jitter: {sigma: 0.9}}", "0.9", {"sigma"});
  refused_at("{gpu: h100, gpus: 8, jitter: {seed: 1}}", "{seed", {"sigma"});
  refused_at("{node: dgx-h100, nodes: 256, jitter: {sigma: 0.1}}", "{sigma", {"1024"});
}

TEST_CASE("the board says how fast copies through host memory are") {
  const auto ring = [](std::string_view yaml) {
    const Cluster cluster(good(yaml), link_rates());
    for (const Hop& hop : cluster.route(0, 1)) {
      const Link link = cluster.link(hop.link);
      if (link.kind == LinkKind::host_staging) return link.rate.value / 2e9;
    }
    return 0.0;
  };
  CHECK(ring("{gpu: 4090, gpus: 4, p2p: false}") == doctest::Approx(3.2));
  CHECK(ring("{gpu: 4090, gpus: 4, p2p: false, host: {board: server}}") == doctest::Approx(14.5));
  CHECK(ring("{gpu: l40s, gpus: 4, p2p: false}") == doctest::Approx(14.5));
  CHECK(ring("{gpu: l40s, gpus: 4, p2p: false, host: {board: desktop}}") == doctest::Approx(3.2));
  CHECK(ring("{node: 8x-rtx4090-nps4}") == doctest::Approx(14.5));
  CHECK(assumes(good("{gpu: 4090, gpus: 4, p2p: false}"), "host.board is taken as desktop"));
  refused_at("{gpu: 4090, gpus: 4, host: {board: laptop}}", "laptop", {"server, desktop"});
}

TEST_CASE("an empty cluster says what it needs") {
  Diagnostics diagnostics;
  CHECK(!read("", diagnostics).has_value());
  CHECK(diagnostics.has_errors());
}
