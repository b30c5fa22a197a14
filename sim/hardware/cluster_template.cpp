#include "sim/hardware/cluster_template.h"

#include <algorithm>
#include <array>

#include "sim/config/reader.h"
#include "sim/hardware/topology.h"

namespace foretrain {
namespace {

using config::Node;

// Keys of a catalogue file that describe the entry and not the machine.
constexpr std::array<std::string_view, 7> kEntryKeys = {"name",   "aliases", "description", "checked",
                                                        "source", "note",    "caution"};

Node without_entry_keys(const Node& file) {
  Node machine = file;
  if (!machine.is_map()) return machine;
  std::erase_if(machine.map(), [](const Node::Entry& entry) {
    return std::find(kEntryKeys.begin(), kEntryKeys.end(), entry.key) != kEntryKeys.end();
  });
  return machine;
}

void erase_key(Node& map, std::string_view key) {
  if (!map.is_map()) return;
  std::erase_if(map.map(), [&](const Node::Entry& entry) { return entry.key == key; });
}

struct Entry {
  std::string name;
  Node machine;
};

// The catalogue entry that `key` of the scenario's map asks for; an empty one if it does not ask.
std::optional<Entry> look_up(config::MapReader& asked, std::string_view key, const std::string& folder,
                             const std::string& what, ClusterTemplate& result, Diagnostics& diagnostics) {
  const auto name = asked.text(key);
  if (!name) {
    const Node* wrong = asked.node(key);
    if (present(wrong) != nullptr) return std::nullopt;
    return Entry{"", Node{{}, Node::Map{}, false}};
  }
  const auto found = config::Catalogue(folder, what).find(*name, asked.position_of(key), diagnostics);
  if (!found) return std::nullopt;
  const Node* caution = found->node->find("caution");
  if (caution != nullptr && caution->is_scalar()) {
    result.cautions.push_back(message("{}: {}", found->name, caution->scalar()));
  }
  return Entry{found->name, without_entry_keys(*found->node)};
}

// What the host of `topo` is, where the scenario asks for one: its GPU must be named, since the matrix does not say it.
std::optional<Node> look_at_topology(config::MapReader& asked, const DataFolder& data, ClusterTemplate& result,
                                     Diagnostics& diagnostics) {
  const Node* topo = asked.node("topo");
  if (present(topo) == nullptr) return Node{{}, Node::Map{}, false};
  if (asked.has("node")) {
    asked.error("topo", message("cluster has both node and topo; write the one that describes the machine"));
    return std::nullopt;
  }
  const bool is_text = asked.text("topo").has_value();
  const std::string name = asked.required_text("gpu");
  if (name.empty() || !is_text) return std::nullopt;
  const std::optional<Gpu> gpu = load_gpu(data, name, asked.position_of("gpu"), diagnostics);
  const bool with_nics = asked.has("nic_gbps") || asked.has("fabric");  // what gives them a rate
  auto seen = gpu ? read_topology(*topo, *gpu, with_nics, diagnostics) : std::nullopt;
  if (!seen) return std::nullopt;
  result.cautions.assign(seen->assumptions.begin(), seen->assumptions.end());
  if (!asked.has("gpus") && !asked.has("nodes")) {
    seen->machine.map().push_back({"gpus", topo->position, *seen->machine.find("gpus_per_node")});
  }
  return std::move(seen->machine);
}

std::optional<std::int64_t> whole_number(const Node& map, std::string_view key) {
  Diagnostics aside;  // what is wrong with it is said where it is read
  config::MapReader reader(map, aside, "");
  return reader.integer(key, {1, 1e9});
}

// A job on several nodes says how they are joined, or is taken to run on the nodes that its GPU mostly comes in.
void add_usual_network(ClusterTemplate& result, const DataFolder& data) {
  Node& cluster = result.merged;
  for (const char* said : {"node", "topo", "fabric", "nics", "nic_gbps", "net", "mig"}) {
    if (!cluster.is_map() || cluster.find(said) != nullptr) return;
  }
  const Node* name = cluster.find("gpu");
  if (name == nullptr || !name->is_scalar()) return;
  const SourcePosition asked_at = name->position;  // the map grows below, and moves
  Diagnostics aside;
  const std::optional<Gpu> gpu = load_gpu(data, name->scalar(), asked_at, aside);
  if (!gpu || gpu->usual_node.empty()) return;
  const auto found = config::Catalogue(data.path + "/hardware/nodes", "node").find(gpu->usual_node, asked_at, aside);
  if (!found) return;

  const std::int64_t usual = whole_number(*found->node, "gpus_per_node").value_or(1);
  const std::int64_t nics = whole_number(*found->node, "nics").value_or(1);
  const auto gpus = whole_number(cluster, "gpus"), nodes = whole_number(cluster, "nodes");
  const std::int64_t per_node = whole_number(cluster, "gpus_per_node")
                                    .value_or(gpus && nodes ? std::max<std::int64_t>(*gpus / *nodes, 1) : usual);
  if (per_node > usual) return;  // no such node is usual
  if (nodes.value_or(1) == 1 && gpus.value_or(1) <= per_node) return;
  const auto add = [&](std::string key, Node value) {
    value.position = asked_at;
    if (cluster.find(key) == nullptr) cluster.map().push_back({std::move(key), asked_at, std::move(value)});
  };
  add("gpus_per_node", {{}, std::to_string(per_node), false});
  add("nics", {{}, std::to_string(std::max<std::int64_t>(nics * per_node / usual, 1)), false});
  for (const char* key : {"nvlink_domain", "nic_gbps", "net"}) {
    if (const Node* value = found->node->find(key)) add(key, *value);
  }
  result.cautions.push_back(
      message("the nodes and their network are taken as those of {}, usual for {}", found->name, gpu->name));
}

}  // namespace

std::optional<ClusterTemplate> fill_from_catalogue(const Node& cluster, const DataFolder& data,
                                                   Diagnostics& diagnostics) {
  ClusterTemplate result;
  config::MapReader asked(cluster, diagnostics, "cluster");
  if (!cluster.is_map() && !cluster.is_null()) return std::nullopt;

  auto node = look_up(asked, "node", data.path + "/hardware/nodes", "node", result, diagnostics);
  auto fabric = look_up(asked, "fabric", data.path + "/hardware/fabrics", "fabric", result, diagnostics);
  if (!node || !fabric) return std::nullopt;
  std::optional<Node> host = look_at_topology(asked, data, result, diagnostics);
  if (!host) return std::nullopt;
  node->machine = merge(node->machine, *host);
  if (node->machine.find("nics") != nullptr) erase_key(fabric->machine, "nics");

  result.merged = merge(node->machine, fabric->machine);
  if (cluster.is_map()) result.merged = merge(result.merged, cluster);
  result.merged.position = cluster.position;
  if (node->name.empty() && fabric->name.empty()) add_usual_network(result, data);
  result.node_name = std::move(node->name);
  result.fabric_name = std::move(fabric->name);
  return result;
}

}  // namespace foretrain
