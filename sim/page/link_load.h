#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/analysis/case_report.h"

namespace foretrain::page {

// The links of the first node, and what one step of the case sends over them.
struct NodeTraffic {
  struct LinkTraffic {
    Link link;
    std::string from, to;  // places of the node; `to` is empty for a budget beside the graph ("nic 0 sends")
    double bytes = 0;      // a step; core-nanoseconds of a link of kind cpu
    double load = 0;       // share of the step that they take at the link's achievable rate
  };
  std::vector<LinkTraffic> links;
};

// Traffic that passes contract is taken from how long it is exposed.
NodeTraffic node_traffic(const CaseReport& report, const Cluster& cluster, const Communicators& communicators);

}  // namespace foretrain::page
