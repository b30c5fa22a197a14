#include "sim/scenario/understood.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/config/write.h"
#include "sim/model/write_model.h"
#include "sim/scenario/document.h"
#include "sim/scenario/fields.h"

namespace foretrain {
namespace {

using config::Node;

Node scalar(std::string text) { return Node{{}, std::move(text), false}; }
Node scalar(const char* text) { return scalar(std::string(text)); }
Node scalar(bool value) { return scalar(value ? "true" : "false"); }
Node scalar(std::int64_t value) { return scalar(fmt::format("{}", value)); }
Node scalar(int value) { return scalar(fmt::format("{}", value)); }
Node scalar(double value) { return scalar(fmt::format("{}", value)); }

// A map of the case to fill: what is written wins.
class Filling {
 public:
  Filling(Node& owner, std::string key) : owner_(owner), key_(std::move(key)) {
    const Node* written = owner_.find(key_);
    map_ = written != nullptr && written->is_map() ? *written : config::empty_map();
  }
  ~Filling() {
    if (!map_.map().empty()) config::set_entry(owner_, key_, std::move(map_));
  }
  Filling(const Filling&) = delete;
  Filling& operator=(const Filling&) = delete;

  template <class T>
  void assume(const char* key, T value) {
    if (!is_written(map_, key)) config::set_entry(map_, key, scalar(value));
  }
  void name(const char* key, const std::string& value) {
    if (is_written(map_, key)) config::set_entry(map_, key, scalar(value));
  }
  bool has(std::string_view key) const { return is_written(map_, key); }
  Node& map() { return map_; }

 private:
  Node& owner_;
  std::string key_;
  Node map_;
};

void fill_model(Node& node, const Case& c) {
  const Node* written = node.find("model");
  if (written == nullptr || (written->is_map() && !is_written(*written, "hf"))) return;
  const auto ends_with = [&](const char* extension) { return written->scalar().ends_with(extension); };
  const bool of_a_file = written->is_map() || ends_with(".yaml") || ends_with(".yml") || ends_with(".json");
  config::set_entry(node, "model", of_a_file ? write_model(c.model) : scalar(c.model.name));
}

void fill_train(Node& node, const Train& t) {
  Filling train(node, "train");
  train.assume("seq_len", t.seq_len);
  if (t.global_batch > 0) train.assume("global_batch", t.global_batch);
  train.assume("precision", to_string(t.precision));
  train.assume("optimizer", to_string(t.optimizer));
  train.assume("attention", to_string(t.attention));
}

void fill_host(Node& cluster, const ClusterDescription& c) {
  const HostDescription& h = c.host;
  Filling host(cluster, "host");
  host.assume("sockets", h.sockets);
  host.assume("cores", h.cores);
  host.assume("dram_gbps", h.dram_bandwidth_per_socket.value * h.sockets / kGiga);
}

// A catalogue node says the rest of its machine.
void fill_cluster(Node& node, const ClusterDescription& c) {
  Filling cluster(node, "cluster");
  cluster.name("node", c.node_name);
  cluster.name("fabric", c.fabric_name);
  cluster.name("gpu", c.gpu.name);
  if (!c.node_name.empty() || cluster.has("nvlink_domain")) return;
  cluster.assume("gpus", c.gpus);
  cluster.assume("gpus_per_node", c.gpus_per_node);
  if (c.gpus_per_node > 1) {
    cluster.assume("intra", to_string(c.intra));
    cluster.assume("p2p", c.p2p);
    if (c.intra == Intra::pcie_switch) cluster.assume("gpus_per_pcie_switch", c.gpus_per_pcie_switch);
  }
  if (c.nodes() > 1 && c.fabric_name.empty()) cluster.assume("net", to_string(c.network));
  if (cluster.has("topo")) {
    if (c.nics > 0) cluster.assume("nics", c.nics);
    std::erase_if(cluster.map().map(), [](const Node::Entry& entry) { return entry.key == "topo"; });
  }
  fill_host(cluster.map(), c);
}

void fill_plan(Node& node, const Case& c) {
  if (c.open_plan) return;
  const Plan& p = c.plan;
  Filling plan(node, "plan");
  plan.assume("tp", p.tp);
  plan.assume("pp", p.pp);
  plan.assume("dp", p.dp);
  plan.assume("cp", p.cp);
  if (p.pp > 1) {
    plan.assume("vpp", p.vpp);
    plan.assume("schedule", to_string(p.schedule));
  }
  if (c.model.experts > 0) {
    plan.assume("ep", p.ep);
    plan.assume("etp", p.etp);
  }
  if (p.tp > 1) plan.assume("sequence_parallel", p.sequence_parallel);
  plan.assume("zero", p.zero);
  if (!plan.has("recompute")) plan.assume("recompute", "none");
  if (!plan.has("offload")) plan.assume("offload", "none");
  if (c.micro_batch_auto) {
    plan.assume("micro_batch", "auto");
  } else {
    plan.assume("micro_batch", p.micro_batch);
  }
}

Node filled(const Node& merged, const Case& c) {
  Node node = merged;
  std::erase_if(node.map(), [](const Node::Entry& entry) { return entry.key == "name"; });
  fill_model(node, c);
  fill_train(node, c.train);
  fill_cluster(node, c.cluster);
  fill_plan(node, c);
  if (!is_written(node, "software")) config::set_entry(node, "software", scalar(c.software.name));
  return node;
}

bool same(const Node& a, const Node& b) {
  if (a.is_scalar() && b.is_scalar()) return a.scalar() == b.scalar() && a.quoted == b.quoted;
  return a.value.index() == b.value.index() && config::write_yaml(a) == config::write_yaml(b);
}

// What two maps have in common.
Node common(const Node& a, const Node& b) {
  Node both = config::empty_map();
  for (const Node::Entry& entry : a.map()) {
    const Node* other = b.find(entry.key);
    if (other == nullptr) continue;
    if (same(entry.value, *other)) {
      config::set_entry(both, entry.key, entry.value);
    } else if (entry.value.is_map() && other->is_map()) {
      Node inner = common(entry.value, *other);
      if (!inner.map().empty()) config::set_entry(both, entry.key, std::move(inner));
    }
  }
  return both;
}

// What `node` says beyond what is common.
Node beyond(const Node& node, const Node& shared) {
  Node rest = config::empty_map();
  for (const Node::Entry& entry : node.map()) {
    const Node* there = shared.find(entry.key);
    if (there == nullptr) {
      config::set_entry(rest, entry.key, entry.value);
    } else if (!same(entry.value, *there)) {
      config::set_entry(rest, entry.key, beyond(entry.value, *there));
    }
  }
  return rest;
}

Node title_and_ask(const Node& document, const Scenario& scenario) {
  Node root = config::empty_map();
  if (!scenario.title.empty()) config::set_entry(root, "title", scalar(scenario.title));
  if (is_written(document, "ask")) config::set_entry(root, "ask", *document.find("ask"));
  return root;
}

}  // namespace

Node understood(const Node& document, const Scenario& scenario) {
  Node root = title_and_ask(document, scenario);
  Diagnostics said;  // the document was read before, and nothing was wrong with it
  const std::optional<Document> read = read_document(document, said);
  std::vector<Node> cases;
  if (!read) return root;
  for_each_case(*read, said, [&](const Node& merged, const std::string& name) {
    const auto found =
        std::find_if(scenario.cases.begin(), scenario.cases.end(), [&](const Case& c) { return c.name == name; });
    if (found != scenario.cases.end()) cases.push_back(filled(merged, *found));
  });
  if (cases.empty()) return root;
  Node base = cases.front();
  for (const Node& one : cases) base = common(base, one);
  config::set_entry(root, "base", base);
  Node::Sequence list;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    Node one = config::empty_map();
    config::set_entry(one, "name", scalar(scenario.cases[i].name));
    list.push_back(merge(one, beyond(cases[i], base)));
  }
  config::set_entry(root, "cases", Node{{}, std::move(list), false});
  return root;
}

std::string understood_text(const Node& document, const Scenario& scenario) {
  std::vector<std::string> sentences;
  for (const Case& c : scenario.cases) {
    for (const std::string& sentence : english(c.assumptions)) {
      if (std::find(sentences.begin(), sentences.end(), sentence) == sentences.end()) sentences.push_back(sentence);
    }
  }
  std::string text;
  for (const std::string& sentence : sentences) text += fmt::format("# {}\n", sentence);
  return text + config::write_yaml(understood(document, scenario));
}

std::string commented_text(const Node& document, const Scenario& scenario) {
  const auto meaning = [](const std::string& path) -> std::string {
    std::string_view of_case = path;
    for (const std::string_view prefix : {"base.", "cases."}) {
      if (of_case.starts_with(prefix)) of_case.remove_prefix(prefix.size());
    }
    const Field* field = find_field(of_case);
    if (field == nullptr) return "";
    const bool listed = field->kind == Field::Kind::choice && field->words.size() > 1;
    return std::string(field->meaning) + (listed ? fmt::format(": {}", values_in_words(*field)) : "");
  };
  return config::write_yaml(understood(document, scenario), meaning);
}

}  // namespace foretrain
