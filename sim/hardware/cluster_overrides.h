#pragma once

#include "sim/hardware/cluster_reading.h"

namespace foretrain {

// Reads what makes GPUs and links of a cluster differ.
//
//   overrides:
//     - {link: nic, node: 2, index: 5, factor: 0.5}          a slower link: nvlink, pcie or nic
//     - {gpu: a100-sxm4-40gb, nodes: [2, 3]}                 other GPUs in these nodes
//     - {node: 0, index: 3, power_limit_w: 400}              one GPU that is held at less power
//     - {node: 0, index: 3, factor: 0.8}                     one whose kernels all run at 0.8 of the usual speed
//   jitter: {sigma: 0.03, seed: 7}                           every GPU a little faster or slower than the next
//
// Without `index` an entry is about all GPUs of its nodes; a later entry changes what earlier ones say. The slices of a
// card cut into unlike ones (`mig`) are kinds of GPUs here too. Needs all but nvlink_domain to be read before.
void read_overrides(ClusterReading& read);

}  // namespace foretrain
