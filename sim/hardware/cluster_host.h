#pragma once

#include "sim/hardware/cluster_reading.h"

namespace foretrain {

// Reads cluster.host: CPUs, host memory and drives of a node. What is missing is what such nodes usually have; where
// traffic between GPUs crosses the host, that is noted as an assumption. GPU, node size and layout must be read.
void read_host(ClusterReading& read);

}  // namespace foretrain
