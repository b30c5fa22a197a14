#include "sim/hardware/nvlink_domain.h"

#include <fmt/format.h>

#include <algorithm>

namespace foretrain {

void join_hosts_of_domain(ClusterDescription& cluster, int domain) {
  const int host = cluster.gpus_per_node;
  if (cluster.gpus <= host || domain <= host) return;
  int joined = domain / host;  // hosts
  while (joined > 1 && cluster.gpus % (joined * host) != 0) --joined;
  if (joined == 1) return;
  cluster.gpus_per_host = host;
  cluster.gpus_per_node = joined * host;
  cluster.nics *= joined;
  cluster.host.sockets *= joined;
  cluster.host.cores *= joined;
  if (cluster.host.dram) *cluster.host.dram *= joined;
  if (cluster.host.nvme_read) *cluster.host.nvme_read *= joined;
  if (cluster.host.nvme_write) *cluster.host.nvme_write *= joined;
  for (ClusterDescription::Override& slow : cluster.overrides) {
    const int local = slow.link == "nic" ? cluster.nics / joined : host;
    slow.index += slow.node % joined * local;
    slow.node /= joined;
  }
  if (joined * host != std::min(domain, cluster.gpus)) {
    cluster.assumptions.push_back(
        message("every NVLink domain of {} GPUs holds {} of the job", domain, cluster.gpus_per_node));
  }
}

}  // namespace foretrain
