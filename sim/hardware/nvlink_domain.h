#pragma once

#include "sim/hardware/cluster_description.h"

namespace foretrain {

// Joins the hosts of a job that share an NVLink domain of `domain` GPUs into nodes of the cluster: what is local to a
// node (links, NICs, sockets, memory) is then that of all its hosts. Every domain holds the same number of the job's
// GPUs, as many as go evenly, which is how block-aware schedulers place such jobs (Slurm's topology/block: 256 GPUs
// take 64 of each domain of 72). Does nothing if the job has one host, or if no more than one host's GPUs go evenly.
void join_hosts_of_domain(ClusterDescription& cluster, int domain);

}  // namespace foretrain
