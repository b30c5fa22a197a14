#pragma once

#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "sim/cost/exchange.h"

namespace foretrain {

// Shapes and link loads of the many groups of a job. Where all nodes are alike, those of groups that lie alike in their
// nodes are made once and moved from node to node; the digits are the same. The cluster must outlive this.
class PlacedGroups {
 public:
  explicit PlacedGroups(const Cluster& cluster) : cluster_(cluster) {}

  // shape_of(), link_loads(), and exchange_loads() with the shape that has their rates.
  const GroupShape& shape(std::span<const int> gpus);
  std::vector<LinkLoad> loads(std::span<const int> gpus, Algorithm algorithm);
  struct Exchange {
    GroupShape shape;
    std::vector<LinkLoad> loads;
  };
  Exchange exchange(std::span<const int> gpus, const TokenExchange& tokens);
  const GroupShape& exchange_shape(std::span<const int> gpus, const TokenExchange& tokens) {
    return exchange_there(place(gpus).gpus, tokens).shape;
  }

 private:
  // The group moved to the first nodes, where that is the same.
  struct Place {
    std::vector<int> gpus;
    int node = 0;  // that it was moved from
  };
  Place place(std::span<const int> gpus) const;
  const Exchange& exchange_there(const std::vector<int>& gpus, const TokenExchange& tokens);
  std::vector<LinkLoad> moved(std::vector<LinkLoad> loads, int nodes) const;

  const Cluster& cluster_;
  std::map<std::vector<int>, GroupShape> shapes_;
  std::map<std::tuple<Algorithm, std::vector<int>>, std::vector<LinkLoad>> loads_;
  std::map<std::pair<TokenExchange, std::vector<int>>, Exchange> exchanges_;
};

}  // namespace foretrain
