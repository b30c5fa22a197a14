#include "sim/hardware/known_machine.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace foretrain {
namespace {

using config::Node;

constexpr std::array kTelling = {"gpu", "gpus_per_node", "intra", "nics", "nic_gbps"};

bool same(const Node& a, const Node& b, std::string_view key) {
  const Node *of_a = a.find(key), *of_b = b.find(key);
  return of_a != nullptr && of_b != nullptr && of_a->is_scalar() && of_b->is_scalar() &&
         of_a->scalar() == of_b->scalar();
}

// Whether nothing that both say of their hosts differs.
bool hosts_agree(const Node& a, const Node& b) {
  const Node *of_a = a.find("host"), *of_b = b.find("host");
  if (of_a == nullptr || of_b == nullptr || !of_a->is_map() || !of_b->is_map()) return true;
  return std::all_of(of_a->map().begin(), of_a->map().end(), [&](const Node::Entry& entry) {
    return of_b->find(entry.key) == nullptr || same(*of_a, *of_b, entry.key);
  });
}

bool describes(const Node& cluster, const Node& machine) {
  return std::all_of(kTelling.begin(), kTelling.end(), [&](const char* key) { return same(cluster, machine, key); }) &&
         hosts_agree(cluster, machine);
}

}  // namespace

std::optional<KnownMachine> known_machine(const Node& cluster, const config::Catalogue& nodes) {
  if (!cluster.is_map()) return std::nullopt;
  std::optional<KnownMachine> known;
  for (const std::string& name : nodes.names()) {
    Diagnostics said;  // what is wrong in a file is its own affair
    const auto found = nodes.find(name, {}, said);
    if (!found || !found->node->is_map()) continue;
    const Node& machine = *found->node;
    const Node* network = machine.find("net");
    if (network == nullptr || !network->is_scalar()) continue;
    if (!describes(cluster, machine)) continue;
    if (known && known->network != network->scalar()) return std::nullopt;
    if (!known) known = {name, network->scalar()};
  }
  return known;
}

}  // namespace foretrain
