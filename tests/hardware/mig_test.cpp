#include "sim/hardware/mig.h"

#include <doctest/doctest.h>

#include <map>

#include "sim/hardware/cluster.h"
#include "tests/hardware/catalogue_support.h"
#include "tests/hardware/machines.h"
#include "tests/support/text.h"

using namespace foretrain;
using foretrain::testing::contains;
using namespace foretrain::test;

namespace {

std::string refusal(std::string_view yaml) {
  Diagnostics diagnostics;
  CHECK(!read(yaml, diagnostics).has_value());
  CHECK(diagnostics.error_count() == 1);
  return all_text(diagnostics);
}

Mig mig_of(const std::string& gpu) {
  Diagnostics diagnostics;
  const auto card = load_gpu(data_folder(), gpu, {}, diagnostics);
  REQUIRE(card.has_value());
  REQUIRE(card->mig.has_value());
  return *card->mig;
}

bool holds(const Mig& mig, const std::vector<std::string>& names) {
  std::vector<const MigProfile*> slices;
  for (const std::string& name : names) slices.push_back(mig.find(name));
  return mig.holds(slices);
}

}  // namespace

TEST_CASE("a card holds the combinations of slices that nvidia-smi offers") {
  const Mig mig = mig_of("a100-sxm4-40gb");
  const std::vector<std::pair<std::string, int>> most = {{"1g.5gb", 7},  {"1g.10gb", 4}, {"2g.10gb", 3},
                                                         {"3g.20gb", 2}, {"4g.20gb", 1}, {"7g.40gb", 1}};
  for (const auto& [name, count] : most) {
    CAPTURE(name);
    CHECK(mig.most(*mig.find(name)) == count);
  }
  CHECK(holds(mig, {"4g.20gb", "2g.10gb", "1g.5gb"}));
  CHECK(holds(mig, {"1g.5gb", "2g.10gb", "4g.20gb"}));  // whatever the order
  CHECK(holds(mig, {"4g.20gb", "3g.20gb"}));
  CHECK(holds(mig, {"3g.20gb", "2g.10gb", "1g.5gb", "1g.5gb"}));
  CHECK(!holds(mig, {"3g.20gb", "2g.10gb", "2g.10gb", "1g.5gb"}));  // 3g takes half of the memory
  CHECK(holds(mig, {"3g.20gb", "1g.5gb", "1g.5gb", "1g.5gb"}));
  CHECK(!holds(mig, {"4g.20gb", "4g.20gb"}));
  CHECK(!holds(mig, {"7g.40gb", "1g.5gb"}));
  CHECK(!holds(mig, {"2g.10gb", "2g.10gb", "2g.10gb", "2g.10gb"}));
  CHECK(mig_of("a30").most(*mig_of("a30").find("1g.6gb")) == 4);
}

TEST_CASE("the slices a card holds never have more than the card") {
  for (const std::string& name : stems("gpus")) {
    Diagnostics diagnostics;
    const auto card = load_gpu(data_folder(), name, {}, diagnostics);
    REQUIRE(card.has_value());
    if (!card->mig) continue;
    for (const MigProfile& profile : card->mig->profiles) {
      CAPTURE(name);
      CAPTURE(profile.name);
      const Gpu slice = slice_of(*card, profile);
      const double most = card->mig->most(profile);
      CHECK(most >= 1);
      CHECK(most * slice.sm_count <= card->sm_count);
      CHECK(most * slice.memory.value <= card->memory.value);
      CHECK(most * slice.memory_bandwidth.value <= card->memory_bandwidth.value * (1 + 1e-12));
      CHECK(most * slice.l2.value <= card->l2.value * (1 + 1e-12));
      for (int p = 0; p < kPrecisions; ++p) {
        const auto whole = card->dense(static_cast<Precision>(p)), part = slice.dense(static_cast<Precision>(p));
        REQUIRE(whole.has_value() == part.has_value());
        if (whole) CHECK(most * part->value <= whole->value * (1 + 1e-12));
      }
    }
  }
}

TEST_CASE("one name fills the cards, a list is the cut of each card") {
  const ClusterDescription seven = good("{gpu: a100-sxm4-40gb, gpus: 7, mig: 1g.5gb}");
  CHECK(seven.gpus_per_node == 7);
  CHECK(seven.cards_per_node() == 1);
  CHECK(seven.gpu.sm_count == 14);
  CHECK(seven.intra == Intra::pcie);
  CHECK(!seven.p2p);
  CHECK(good("{gpu: a100-sxm4-40gb, gpus: 1, mig: 3g.20gb}").cards_per_node() == 1);

  const ClusterDescription spread = good("{gpu: a100-sxm4-40gb, gpus: 2, mig: [3g.20gb]}");
  CHECK(spread.cards_per_node() == 2);

  const ClusterDescription unlike = good("{gpu: a100-sxm4-40gb, gpus: 6, mig: [4g.20gb, 2g.10gb, 1g.5gb]}");
  CHECK(unlike.cards_per_node() == 2);
  CHECK(unlike.gpu_at(0).sm_count == 56);
  CHECK(unlike.gpu_at(4).sm_count == 28);
  CHECK(unlike.gpu_at(5).full_name() == "a100-sxm4-40gb 1g.5gb");

  // A catalogue node is cut as a whole.
  const ClusterDescription node = good("{node: dgx-a100-40g, mig: 3g.20gb}");
  CHECK(node.gpus == 16);
  CHECK(node.cards_per_node() == 8);
  CHECK(node.intra == Intra::pcie_switch);
}

TEST_CASE("slices that cannot be are refused, with those that can") {
  const std::string_view wrong = "{gpu: a100-sxm4-40gb, gpus: 1, mig: 3g.40gb}";
  const std::string unknown = refusal(wrong);
  CHECK(contains(unknown, "scenario.yaml:1:" + std::to_string(wrong.find("3g.40gb") + 1) + ": error:"));
  CHECK(contains(unknown, "1g.5gb, 1g.10gb, 2g.10gb, 3g.20gb, 4g.20gb, 7g.40gb"));
  CHECK(contains(refusal("{gpu: a100-sxm4-40gb, gpus: 2, mig: [4g.20gb, 4g.20gb]}"), "1 x 4g.20gb"));
  CHECK(contains(refusal("{gpu: rtx4090, gpus: 1, mig: 1g.5gb}"), "cannot be cut"));
  CHECK(contains(refusal("{gpu: a100-sxm4-40gb, gpus: 7, mig: 1g.5gb, intra: nvswitch}"), "no NVLink"));
  CHECK(contains(refusal("{gpu: a100-sxm4-40gb, gpus: 7, mig: 1g.5gb, p2p: true}"), "peer-to-peer"));
  CHECK(contains(refusal("{gpu: a100-sxm4-40gb, gpus: 14, mig: 1g.5gb, overrides: [{gpu: a30, node: 0}]}"), "mig"));
}

TEST_CASE("slices of a card share its PCIe link and meet in host memory") {
  const Cluster cluster(good("{gpu: a100-sxm4-40gb, gpus: 14, gpus_per_node: 14, mig: 1g.5gb}"), link_rates());
  CHECK(cluster.medium(0, 1) == Cluster::Medium::host_memory);
  const auto loads = [&](int from, int to) {
    std::map<std::string, double> by_name;
    for (const Hop& hop : cluster.route(from, to)) by_name[cluster.link_name(hop.link)] += hop.bytes_per_byte;
    return by_name;
  };
  const auto near = loads(0, 1), far = loads(0, 7);
  CHECK(near.at("node 0: card 0 -> socket 0 (pcie)") == 1.0);
  CHECK(near.at("node 0: socket 0 -> card 0 (pcie)") == 1.0);
  CHECK(near.at("node 0: card 0 copies through host memory (host staging)") == 2.0);  // both slices' budget is one
  CHECK(far.at("node 0: card 0 copies through host memory (host staging)") == 1.0);
  CHECK(far.at("node 0: card 1 copies through host memory (host staging)") == 1.0);
  // A small slice has one copy engine, so its copies in and out share one rate.
  std::vector<LinkId> out, in;
  for (const Hop& hop : cluster.route_to_host(3)) out.push_back(hop.link);
  for (const Hop& hop : cluster.route_from_host(3)) in.push_back(hop.link);
  CHECK(out.front() == in.back());
  CHECK(cluster.link_name(out.front()) == "node 0: gpu 3 copy engine (pcie)");
}
