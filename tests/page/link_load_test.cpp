#include "sim/page/link_load.h"

#include <doctest/doctest.h>

#include "tests/support/cases.h"

using namespace foretrain;
using namespace foretrain::page;
using foretrain::testing::case_of;
using foretrain::testing::environment;

namespace {

NodeTraffic traffic_of(const CaseReport& report) {
  const Cluster cluster(report.subject.cluster, environment().link_rates);
  const Communicators communicators(report.subject, cluster, environment().collectives,
                                    Communicators::Folding::symmetric, environment().hosts);
  return node_traffic(report, cluster, communicators);
}

CaseReport simulated(const std::string& cluster, const std::string& plan) {
  return foretrain::testing::simulate_plainly(
      case_of("model: gpt-3-1.3b\n"
              "train: {seq_len: 2048, global_batch: 16, precision: bf16, optimizer: adamw, attention: flash2}\n"
              "software: megatron-core\n"
              "cluster: " +
              cluster + "\nplan: " + plan + "\n"));
}

double bytes_between(const NodeTraffic& traffic, const std::string& from, const std::string& to) {
  for (const auto& link : traffic.links) {
    if (link.from == from && link.to == to) return link.bytes;
  }
  FAIL("no link " << from << " -> " << to);
  return 0;
}

}  // namespace

TEST_CASE("gradients go round a ring: each GPU sends 2 (n-1)/n of them a step") {
  const CaseReport report = simulated("{node: dgx-a100-80g}", "{zero: 0, micro_batch: 2}");
  const double gradients = report.step.layouts[0].trained() * report.subject.software.gradient_bytes;
  const NodeTraffic traffic = traffic_of(report);
  for (int gpu = 0; gpu < 8; ++gpu) {
    const std::string name = "gpu " + std::to_string(gpu);
    CHECK(bytes_between(traffic, name, "nvswitch 0") == doctest::Approx(2.0 * 7 / 8 * gradients).epsilon(0.001));
    CHECK(bytes_between(traffic, "nvswitch 0", name) == doctest::Approx(2.0 * 7 / 8 * gradients).epsilon(0.001));
    CHECK(bytes_between(traffic, name, "pcie switch " + std::to_string(gpu / 2)) == 0);
  }
}

TEST_CASE("collectives that passes contract load the links as well") {
  // Four all-reduces a layer and micro-batch and a few at the ends, all exposed, of which a ring sends 2 (n-1)/n.
  const CaseReport report = simulated("{node: dgx-a100-80g}", "{tp: 8, micro_batch: 2}");
  const Case& c = report.subject;
  const double tensor = static_cast<double>(c.plan.micro_batch * c.train.seq_len * c.model.hidden) * 2.0;
  const double layers = static_cast<double>(c.model.layers * report.step.micro_batches) * 4.0 * tensor;
  const double sent = bytes_between(traffic_of(report), "gpu 3", "nvswitch 0");
  CHECK(sent > 0.5 * 2.0 * 7 / 8 * layers);
  CHECK(sent < 1.1 * 2.0 * 7 / 8 * layers);
}

TEST_CASE("between nodes the network cards carry what their GPUs exchange, and no link is more than busy") {
  const CaseReport report = simulated("{node: dgx-a100-80g, nodes: 2}", "{tp: 8, zero: 1, micro_batch: 1}");
  const NodeTraffic traffic = traffic_of(report);
  int loaded_nics = 0;
  for (const auto& link : traffic.links) {
    CHECK(link.load >= 0);
    CHECK(link.load <= 1);
    CHECK(link.link.rate.value > 0);
    if (link.link.kind == LinkKind::nic && link.load > 0) ++loaded_nics;
    if (link.load == 0) CHECK(link.bytes == 0);
  }
  CHECK(loaded_nics == 16);  // eight cards, both ways
  // PCIe switches pass on what the cards send, although only the tighter of the two links is simulated.
  double nic = 0;
  for (const auto& link : traffic.links) {
    if (link.from == "nic 0 sends") nic = link.bytes;
  }
  CHECK(bytes_between(traffic, "pcie switch 0", "nic 0") == doctest::Approx(nic));
}
