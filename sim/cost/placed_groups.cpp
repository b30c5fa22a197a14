#include "sim/cost/placed_groups.h"

#include <algorithm>

namespace foretrain {

PlacedGroups::Place PlacedGroups::place(std::span<const int> gpus) const {
  Place place{{gpus.begin(), gpus.end()}, 0};
  if (!cluster_.nodes_alike()) return place;
  place.node = cluster_.node_of(*std::min_element(gpus.begin(), gpus.end()));
  for (int& gpu : place.gpus) gpu -= place.node * cluster_.description().gpus_per_node;
  return place;
}

std::vector<LinkLoad> PlacedGroups::moved(std::vector<LinkLoad> loads, int nodes) const {
  if (nodes == 0) return loads;
  for (LinkLoad& load : loads) load.link = cluster_.further(load.link, nodes);
  return loads;
}

const GroupShape& PlacedGroups::shape(std::span<const int> gpus) {
  Place at = place(gpus);
  const auto known = shapes_.find(at.gpus);
  if (known != shapes_.end()) return known->second;
  const GroupShape shape = shape_of(cluster_, at.gpus);
  return shapes_.emplace(std::move(at.gpus), shape).first->second;
}

std::vector<LinkLoad> PlacedGroups::loads(std::span<const int> gpus, Algorithm algorithm) {
  const auto [first, node] = place(gpus);
  const auto [known, inserted] = loads_.try_emplace({algorithm, first});
  if (inserted) known->second = link_loads(cluster_, first, algorithm);
  return moved(known->second, node);
}

const PlacedGroups::Exchange& PlacedGroups::exchange_there(const std::vector<int>& gpus, const TokenExchange& tokens) {
  const auto [known, inserted] = exchanges_.try_emplace({tokens, gpus});
  Exchange& made = known->second;
  if (inserted) {
    made.loads = exchange_loads(cluster_, gpus, tokens);
    made.shape = with_exchange(shape(gpus), cluster_, made.loads);
  }
  return made;
}

PlacedGroups::Exchange PlacedGroups::exchange(std::span<const int> gpus, const TokenExchange& tokens) {
  const auto [first, node] = place(gpus);
  const Exchange& made = exchange_there(first, tokens);
  return {made.shape, moved(made.loads, node)};
}

}  // namespace foretrain
