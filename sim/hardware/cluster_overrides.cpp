#include "sim/hardware/cluster_overrides.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "sim/base/random.h"

namespace foretrain {
namespace {

using config::MapReader;
using config::Node;
using config::Unit;

constexpr std::size_t kMostOverrides = 10000;
// Every GPU is simulated by itself then.
constexpr int kMostWithJitter = 1024;

// What becomes of the GPUs that something is said about.
class OddGpus {
 public:
  explicit OddGpus(ClusterReading& read) : cluster_(read.cluster) {
    for (const std::string& profile : cluster_.mig) {
      if (profile == cluster_.mig.front()) continue;
      model(slice_of(read.card, *read.card.mig->find(profile)), profile);
    }
    if (models_.empty()) return;
    for (int gpu = 0; gpu < cluster_.gpus; ++gpu) {
      const std::string& profile =
          cluster_.mig[static_cast<std::size_t>(gpu % cluster_.gpus_per_node) % cluster_.mig.size()];
      if (profile != cluster_.mig.front()) wishes_[gpu].model = number_of(profile);
    }
  }

  // The number of a kind of card, from 1 on; 0 is the cluster's own.
  int model(Gpu gpu, const std::string& name) {
    if (const int known = number_of(name); known > 0) return known;
    models_.emplace_back(name, std::move(gpu));
    return static_cast<int>(models_.size());
  }
  struct Wish {
    int model = 0;
    double watts = 0.0;  // 0: the limit of the whole job, if any
    double speed = 1.0;
  };
  Wish& of(int gpu) { return wishes_[gpu]; }

  // Tells the cluster. What comes out like the cluster's own GPU is none of the odd ones.
  void settle() {
    const auto limit = [](const Gpu& card, double watts) { return watts < card.tdp_watts ? watts : 0.0; };
    const double usual = limit(cluster_.gpu, cluster_.power_limit_watts);
    std::map<std::pair<int, double>, int> kinds;
    for (const auto& [number, wish] : wishes_) {
      const Gpu& card = wish.model == 0 ? cluster_.gpu : models_[static_cast<std::size_t>(wish.model - 1)].second;
      const double watts = limit(card, wish.watts > 0 ? wish.watts : cluster_.power_limit_watts);
      int kind = 0;
      if (wish.model > 0 || watts != usual) {
        const auto [known, inserted] = kinds.try_emplace({wish.model, watts}, 0);
        if (inserted) {
          cluster_.other_gpus.push_back(with_power_limit(card, watts));
          known->second = static_cast<int>(cluster_.other_gpus.size());
        }
        kind = known->second;
      }
      if (kind > 0 || wish.speed != 1.0) cluster_.odd_gpus.push_back({number, kind, wish.speed});
    }
  }

 private:
  int number_of(const std::string& name) const {
    for (std::size_t i = 0; i < models_.size(); ++i) {
      if (models_[i].first == name) return static_cast<int>(i) + 1;
    }
    return 0;
  }

  ClusterDescription& cluster_;
  std::vector<std::pair<std::string, Gpu>> models_;
  std::map<int, Wish> wishes_;
};

std::vector<int> nodes_of(MapReader& map, const ClusterDescription& cluster) {
  const config::Range range{0, cluster.nodes() - 1.0};
  if (!map.has("nodes")) return {static_cast<int>(map.required_integer("node", range))};
  if (map.has("node")) map.error("node", message("cluster.overrides: give either node or nodes"));
  std::vector<int> nodes;
  for (const double node : map.number_list("nodes", Unit::count, range).value_or(std::vector<double>{})) {
    if (node != std::floor(node))
      map.error("nodes",
                message("cluster.overrides.nodes: {} is no node; nodes are whole numbers", fmt::format("{:g}", node)));
    nodes.push_back(static_cast<int>(node));
  }
  return nodes;
}

void read_slow_link(ClusterReading& read, MapReader& map) {
  const ClusterDescription& cluster = read.cluster;
  ClusterDescription::Override slow;
  const std::vector<std::string> links = {"nvlink", "pcie", "nic"};
  if (const auto link = map.choice("link", links)) slow.link = links[*link];
  const int within = slow.link == "nic" ? cluster.nics : cluster.gpus_per_node;
  if (slow.link == "nvlink" && !uses_nvlink(cluster.intra)) {
    map.error("link", message("cluster.overrides: there is no NVLink with intra: {}; right would be pcie or nic",
                              to_string(cluster.intra)));
  }
  if (slow.link == "nic" && within == 0) {
    map.error("link", message("cluster.overrides: the nodes have no NIC; give nics and nic_gbps"));
  }
  const std::vector<int> nodes = nodes_of(map, cluster);
  slow.index = static_cast<int>(map.required_integer("index", {0, std::max(1, within) - 1.0}));
  slow.factor = map.required_number("factor", Unit::count, {1e-6, 1.0});
  for (const int node : nodes) {
    slow.node = node;
    read.cluster.overrides.push_back(slow);
  }
}

// Whether GPUs of this kind can stand beside the cluster's own; says why not.
bool goes_with_the_others(ClusterReading& read, MapReader& map, const Gpu& gpu, bool whole_nodes) {
  const ClusterDescription& cluster = read.cluster;
  const auto refuse = [&](const Message& why) {
    map.error("gpu", message("cluster.overrides: {}", why));
    return false;
  };
  if (!cluster.mig.empty())
    return refuse(message("other GPUs do not go with cluster.mig; write the slices of a card as a list in mig"));
  if (uses_nvlink(cluster.intra) && cluster.gpus_per_node > 1) {
    const std::vector<std::string> legal = nvlink_layouts(gpu);
    if (std::find(legal.begin(), legal.end(), to_string(cluster.intra)) == legal.end()) {
      return refuse(message("{} is not built with intra: {}", gpu.name, to_string(cluster.intra)));
    }
    if (!whole_nodes && gpu.nvlink->generation != cluster.gpu.nvlink->generation) {
      return refuse(
          message("the NVLinks of {} and {} do not fit together in one node; leave out index, so that "
                  "the whole node has {}",
                  gpu.name, cluster.gpu.name, gpu.name));
    }
  }
  if ((gpu.c2c.value > 0) != (cluster.gpu.c2c.value > 0)) {
    return refuse(message("of {} and {} only one is a module with its CPU; both or neither can be in a job", gpu.name,
                          cluster.gpu.name));
  }
  if (cluster.p2p && !uses_nvlink(cluster.intra) && !gpu.p2p_over_pcie) {
    return refuse(message("the driver of {} refuses P2P over PCIe; give the cluster p2p: false", gpu.name));
  }
  return true;
}

void read_odd_gpus(ClusterReading& read, MapReader& map, OddGpus& odd) {
  const ClusterDescription& cluster = read.cluster;
  const std::vector<int> nodes = nodes_of(map, cluster);
  const auto index = map.integer("index", {0, cluster.gpus_per_node - 1.0});
  const auto name = map.text("gpu");
  const auto watts = map.number("power_limit_w", Unit::watts, {10, 1e5});
  const auto speed = map.number("factor", Unit::count, {1e-6, 10});
  if (!map.has("gpu") && !map.has("power_limit_w") && !map.has("factor")) {
    return map.error(
        "node", message("cluster.overrides: an entry says what differs; right would be gpu, power_limit_w or factor, "
                        "or link with a factor"));
  }
  std::optional<int> model;
  if (name) {
    std::optional<Gpu> gpu = load_gpu(read.data, *name, map.position_of("gpu"), read.diagnostics);
    if (!gpu || !goes_with_the_others(read, map, *gpu, !map.has("index"))) return;
    const std::string full_name = gpu->name;
    model = full_name == cluster.gpu.name ? 0 : odd.model(std::move(*gpu), full_name);
  }
  for (const int node : nodes) {
    const int first = node * cluster.gpus_per_node;
    for (int i = 0; i < cluster.gpus_per_node; ++i) {
      if (index ? i != *index : first + i >= cluster.gpus) continue;
      OddGpus::Wish& wish = odd.of(first + i);
      if (model) wish = {*model, 0.0, wish.speed};
      if (watts) wish.watts = *watts;
      if (speed) wish.speed = *speed;
    }
  }
}

void read_list(ClusterReading& read, OddGpus& odd) {
  const Node* list = read.map.node("overrides");
  if (present(list) == nullptr) return;
  if (!list->is_sequence() || list->sequence().size() > kMostOverrides) {
    return read.map.error("overrides", message("cluster.overrides must be a list of at most {} entries {{link, node, "
                                               "index, factor}} or {{node, index, gpu, power_limit_w, factor}}",
                                               kMostOverrides));
  }
  for (const Node& entry : list->sequence()) {
    if (!entry.is_map()) {
      read.diagnostics.error(entry.position, message("an entry of cluster.overrides must be a map {{node, index, gpu, "
                                                     "power_limit_w, factor}} or {{link, node, index, factor}}"));
      continue;
    }
    MapReader map(entry, read.diagnostics, "cluster.overrides");
    if (map.has("link")) {
      read_slow_link(read, map);
    } else {
      read_odd_gpus(read, map, odd);
    }
    map.finish();
  }
}

// GPUs of one kind differ in speed, mostly through the power that each needs for a clock: by 8 % on average in clusters
// of thousands (Sinha et al., SC 2022, arXiv 2208.11035).
void read_jitter(ClusterReading& read, OddGpus& odd) {
  const Node* node = read.map.node("jitter");
  if (present(node) == nullptr) return;
  MapReader map(*node, read.diagnostics, "cluster.jitter");
  if (!node->is_map()) return;
  ClusterDescription::Jitter& jitter = read.cluster.jitter;
  jitter.sigma = map.required_number("sigma", Unit::count, {0.0, 0.5});
  jitter.seed = static_cast<std::uint64_t>(map.integer("seed", {0, 9e15}).value_or(1));
  map.finish();
  if (jitter.sigma <= 0) return;
  if (read.cluster.gpus > kMostWithJitter) {
    return read.map.error("jitter", message("cluster.jitter makes each of {} GPUs a case of its own; right would be "
                                            "at most {} GPUs, or overrides of a few",
                                            read.cluster.gpus, kMostWithJitter));
  }
  for (int gpu = 0; gpu < read.cluster.gpus; ++gpu) {
    odd.of(gpu).speed *= std::exp(jitter.sigma * normal_at(jitter.seed, static_cast<std::uint64_t>(gpu)));
  }
}

}  // namespace

void read_overrides(ClusterReading& read) {
  OddGpus odd(read);
  read_list(read, odd);
  read_jitter(read, odd);
  odd.settle();
}

}  // namespace foretrain
