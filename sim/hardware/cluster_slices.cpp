#include "sim/hardware/cluster_slices.h"

#include <fmt/format.h>

#include <algorithm>

namespace foretrain {

void read_mig(ClusterReading& read) {
  const config::Node* node = read.map.node("mig");
  if (present(node) == nullptr) return;
  const Gpu& card = read.card;
  if (!card.mig) {
    return read.map.error("mig", message("cluster.mig: {} cannot be cut into slices; leave mig out", card.name));
  }
  std::vector<std::string> names = read.map.text_list("mig").value_or(std::vector<std::string>{});
  std::vector<const MigProfile*> slices;
  for (const std::string& name : names) {
    slices.push_back(card.mig->find(name));
    if (slices.back() != nullptr) continue;
    return read.map.error("mig", message("cluster.mig: {} has no slices of {}; legal: {}", card.name, name,
                                         fmt::join(card.mig->names(), ", ")));
  }
  if (slices.empty()) return;
  if (node->is_scalar()) {
    names.resize(static_cast<std::size_t>(card.mig->most(*slices.front())), names.front());
  } else if (!card.mig->holds(slices)) {
    std::vector<std::string> most;
    for (const MigProfile& profile : card.mig->profiles) {
      most.push_back(fmt::format("{} x {}", card.mig->most(profile), profile.name));
    }
    return read.map.error("mig", message("cluster.mig: one {} does not hold {}; of one kind it holds {}", card.name,
                                         fmt::join(names, " + "), fmt::join(most, ", ")));
  }
  read.cluster.mig = std::move(names);
  read.cluster.gpu = slice_of(card, *slices.front());
}

void settle_slices_per_card(ClusterReading& read) {
  ClusterDescription& cluster = read.cluster;
  const config::Node* node = read.map.node("mig");
  if (cluster.mig.empty() || !node->is_scalar()) return;
  cluster.mig.resize(std::min(cluster.mig.size(), static_cast<std::size_t>(cluster.gpus_per_node)));
}

void settle_intra_of_slices(ClusterReading& read, std::optional<Intra> given) {
  ClusterDescription& cluster = read.cluster;
  const Intra usual = given == Intra::nvswitch || given == Intra::pcie_switch ? Intra::pcie_switch : Intra::pcie;
  if (given && uses_nvlink(*given) && read.scenario_says("intra")) {
    read.map.error("intra", message("cluster.intra: MIG slices have no NVLink, so no {}; right would be pcie-switch or "
                                    "pcie",
                                    to_string(*given)));
  }
  if (read.scenario_says("p2p") && cluster.p2p) {
    read.map.error("p2p", message("cluster.p2p: MIG slices have no peer-to-peer; right would be p2p: false"));
  }
  cluster.intra = usual;
  cluster.p2p = false;
  if (cluster.gpus > 1) {
    read.assume(message(
        "slices exchange data through host memory, with an NCCL that lets slices join (NVIDIA/nccl issue 1716)"));
  }
}

}  // namespace foretrain
