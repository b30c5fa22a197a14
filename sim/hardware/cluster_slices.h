#pragma once

#include <optional>

#include "sim/hardware/cluster_reading.h"

namespace foretrain {

// `mig` of a cluster: what its cards are cut into. A wrong name or a cut that no card holds is answered with those that
// are possible. Comes before the counts of GPUs, which are of slices then.
void read_mig(ClusterReading& read);
// After the counts: one name fills the card as far as a node has GPUs.
void settle_slices_per_card(ClusterReading& read);
// Slices have neither NVLink nor P2P (NVIDIA's user guide of Multi-Instance GPU, application considerations): `given`,
// the layout of the scenario or of the catalogue node, becomes that of the cards' PCIe slots.
void settle_intra_of_slices(ClusterReading& read, std::optional<Intra> given);

}  // namespace foretrain
