#include "sim/config/tree.h"

#include <algorithm>
#include <unordered_map>

namespace foretrain::config {

const Node* Node::find(std::string_view key) const {
  if (!is_map()) return nullptr;
  const auto entry = std::find_if(map().begin(), map().end(), [&](const Entry& e) { return e.key == key; });
  return entry == map().end() ? nullptr : &entry->value;
}

Node merge(const Node& base, const Node& over) {
  if (!base.is_map() || !over.is_map()) return over;
  // Looked up only, never walked: the order of the result is the order of `base`, then of `over`.
  std::unordered_map<std::string_view, std::size_t> index_of;
  for (std::size_t i = 0; i < base.map().size(); ++i) index_of.emplace(base.map()[i].key, i);

  std::vector<const Node::Entry*> laid_over(base.map().size(), nullptr);
  std::vector<const Node::Entry*> added;
  for (const Node::Entry& entry : over.map()) {
    const auto found = index_of.find(entry.key);
    if (found == index_of.end()) {
      added.push_back(&entry);
    } else {
      laid_over[found->second] = &entry;
    }
  }

  Node::Map entries;
  entries.reserve(base.map().size() + added.size());
  for (std::size_t i = 0; i < base.map().size(); ++i) {
    const Node::Entry& below = base.map()[i];
    const Node::Entry* above = laid_over[i];
    if (above == nullptr) {
      entries.push_back(below);
    } else {
      entries.push_back({above->key, above->key_position, merge(below.value, above->value)});
    }
  }
  for (const Node::Entry* entry : added) entries.push_back(*entry);
  return Node{base.position, std::move(entries), false};
}

}  // namespace foretrain::config
