#include "sim/cost/exchange.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/cost/summed_loads.h"

namespace foretrain {
namespace {

std::vector<std::span<const int>> by_node(const Cluster& cluster, std::span<const int> sorted) {
  std::vector<std::span<const int>> nodes;
  for (std::size_t first = 0; first < sorted.size();) {
    std::size_t last = first;
    while (last < sorted.size() && cluster.node_of(sorted[last]) == cluster.node_of(sorted[first])) ++last;
    nodes.push_back(sorted.subspan(first, last - first));
    first = last;
  }
  return nodes;
}

double combinations(int of, int taken) {
  double ways = 1;
  for (int i = 0; i < taken; ++i) ways *= static_cast<double>(of - i) / (i + 1);
  return ways;
}

// Of the W of one rank, what reaches one group of `ranks` of all `n`.
double share_of(const TokenExchange& exchange, std::size_t ranks, std::size_t n) {
  const double part = static_cast<double>(ranks) / static_cast<double>(n);
  if (!exchange.two_level) return part;
  return chance_of_any(exchange, exchange.experts * part) / exchange.top_k;
}

// `amount` over the NICs dealt to a GPU, out of it or into it.
void add_network(SummedLoads& loads, const Cluster& cluster, int gpu, double amount, bool out) {
  const Cluster::NicRange nics = cluster.nics_of(gpu);
  const double each = amount / (nics.last - nics.first);
  for (int nic = nics.first; nic < nics.last; ++nic)
    loads.add(out ? cluster.leave(gpu, nic) : cluster.enter(gpu, nic), each);
}

// `amount` from one node to another. Every GPU's part goes to the GPU on its rail, as far as there is one.
void add_fabric(SummedLoads& loads, const Cluster& cluster, std::span<const int> from, std::span<const int> to,
                double amount) {
  const std::size_t lanes = std::max(from.size(), to.size());
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    const int sender = from[lane % from.size()], receiver = to[lane % to.size()];
    loads.add(cluster.across_fabric(cluster.node_of(sender), cluster.nic_of(sender), cluster.node_of(receiver),
                                    cluster.nic_of(receiver)),
              amount / static_cast<double>(lanes));
  }
}

}  // namespace

double chance_of_any(int experts, int top_k, double here) {
  double none = 1.0;
  for (int chosen = 0; chosen < top_k; ++chosen) none *= std::max(0.0, (experts - here - chosen) / (experts - chosen));
  return 1.0 - none;
}

// `here` is some whole groups and maybe a part of one more. Sums over how many of the whole ones are chosen, with that
// part's group or without it.
double chance_of_any(const TokenExchange& exchange, double here) {
  const int groups = exchange.groups, chosen = exchange.top_groups;
  if (chosen >= groups) return chance_of_any(exchange.experts, exchange.top_k, here);
  const double of_group = static_cast<double>(exchange.experts) / groups;
  const int whole = static_cast<int>(std::floor(here / of_group + 1e-9)), cut = whole < groups ? 1 : 0;
  const double part = std::max(0.0, here - whole * of_group);
  const int candidates = exchange.experts / groups * chosen;
  double chance = 0;
  for (int with = 0; with <= cut; ++with) {
    for (int taken = std::max(0, chosen - with - (groups - whole - cut)); taken <= std::min(whole, chosen - with);
         ++taken) {
      const double ways = combinations(whole, taken) * combinations(groups - whole - cut, chosen - with - taken);
      chance += ways / combinations(groups, chosen) *
                chance_of_any(candidates, exchange.top_k, taken * of_group + with * part);
    }
  }
  return chance;
}

std::vector<LinkLoad> exchange_loads(const Cluster& cluster, std::span<const int> gpus, const TokenExchange& exchange) {
  if (gpus.size() < 2) return {};
  std::vector<int> sorted(gpus.begin(), gpus.end());
  std::sort(sorted.begin(), sorted.end());
  const std::vector<std::span<const int>> nodes = by_node(cluster, sorted);
  // A GPU passes on to its neighbours what reaches it from its own rail on every node.
  const double to_one = share_of(exchange, 1, sorted.size());
  const double to_neighbour = exchange.two_level ? to_one * static_cast<double>(nodes.size()) : to_one;
  SummedLoads loads;
  for (const std::span<const int> node : nodes) {
    double out = 0, in = 0;  // of one GPU
    for (const std::span<const int> other : nodes) {
      if (other.data() == node.data()) continue;
      out += share_of(exchange, other.size(), sorted.size());
      const double arriving = share_of(exchange, node.size(), sorted.size()) * static_cast<double>(other.size());
      in += arriving / static_cast<double>(node.size());
      add_fabric(loads, cluster, other, node, arriving);
    }
    for (const int gpu : node) {
      for (const int other : node) {
        if (other != gpu) loads.add(cluster.route(gpu, other), to_neighbour);
      }
      if (nodes.size() == 1) continue;
      add_network(loads, cluster, gpu, out, true);
      add_network(loads, cluster, gpu, in, false);
    }
  }
  return std::move(loads).sum();
}

GroupShape with_exchange(GroupShape shape, const Cluster& cluster, std::span<const LinkLoad> loads) {
  shape.exchange_intra = shape.exchange_network = {std::numeric_limits<double>::infinity()};
  for (const LinkLoad& load : loads) {
    const Link link = cluster.link(load.link);
    BytesPerSecond& bound =
        link.kind == LinkKind::nic || link.kind == LinkKind::fabric ? shape.exchange_network : shape.exchange_intra;
    bound = std::min(bound, link.rate / load.bytes_per_unit);
  }
  return shape;
}

}  // namespace foretrain
