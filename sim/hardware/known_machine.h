#pragma once

#include <optional>
#include <string>

#include "sim/config/catalogue.h"

namespace foretrain {

// A machine of the catalogue (hardware/nodes) and the kind of network it is on, a value of `cluster.net`.
struct KnownMachine {
  std::string name, network;
};

// The machine that has the GPUs, the links between them and the NICs of a generic `cluster` map, and the host as far as
// both describe it: what tells the network where the map guesses it. nullopt where there is none, or there are machines
// on different networks.
std::optional<KnownMachine> known_machine(const config::Node& cluster, const config::Catalogue& nodes);

}  // namespace foretrain
