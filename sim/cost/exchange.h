#pragma once

#include <compare>
#include <span>
#include <vector>

#include "sim/cost/collective.h"

namespace foretrain {

// How tokens go to their experts and back: the all-to-all of a mixture of experts. Experts are spread evenly over the
// ranks of a group, and every token chooses top_k of them, all alike likely: of all of them, or of those of top_groups
// of the groups that they lie in, one after the other.
struct TokenExchange {
  // Every copy of a token travels by itself; or a token crosses to every other node with one of its experts once, to
  // the GPU on the same rail, which passes it on to every GPU of its node with one of them (DeepEP,
  // https://github.com/deepseek-ai/DeepEP).
  bool two_level = false;
  int experts = 1, top_k = 1;
  int groups = 1, top_groups = 1;
  auto operator<=>(const TokenExchange&) const = default;
};

// The share of tokens that choose at least one of `here` of `experts`: 1 - C(experts - here, top_k) / C(experts,
// top_k).
double chance_of_any(int experts, int top_k, double here);
// The same of the first `here` experts, where the token first chooses its groups.
double chance_of_any(const TokenExchange& exchange, double here);

// Bytes that one unit of W puts on each link, all ranks together, sorted by link; W: the bytes of all copies of one
// rank's tokens, of which 1/n stay where they are.
//
// one level  To each of the n ranks W/n; what leaves a node takes the NICs dealt to the sending and receiving GPU.
// two levels To each other node W q/top_k over the network, q the chance that one of its experts is chosen; inside a
//            node each GPU sends W p/top_k to every other for each of the N nodes, p the same for one GPU's experts.
std::vector<LinkLoad> exchange_loads(const Cluster& cluster, std::span<const int> gpus, const TokenExchange& exchange);

// The shape with the rates that `loads` allow on idle links.
GroupShape with_exchange(GroupShape shape, const Cluster& cluster, std::span<const LinkLoad> loads);

}  // namespace foretrain
