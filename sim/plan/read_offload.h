#pragma once

#include <optional>

#include "sim/config/reader.h"
#include "sim/plan/plan.h"

namespace foretrain {

// Reads `offload` of a plan: none | optimizer | optimizer+params | params | activations, or {optimizer: cpu | nvme,
// params: cpu | nvme, gradients: cpu, activations: cpu, fraction, delayed_update}. nullopt if nothing is offloaded or
// something is wrong (and reported). Activations and gradients on NVMe are unsupported by name.
std::optional<PlanRequest::OffloadRequest> read_offload(config::MapReader& plan, Diagnostics& diagnostics);

// Fills in what goes with what and checks that the framework can do it. `zero` is the stage as asked for, `data_ranks`
// the ranks that state would be sharded over.
Offload resolve_offload(const PlanRequest& request, int zero, std::int64_t data_ranks, const Train& train,
                        const Software& software, const ClusterDescription& cluster, Diagnostics& diagnostics);

}  // namespace foretrain
