#pragma once

#include <string>
#include <vector>

#include "sim/config/tree.h"
#include "sim/report/terminal.h"

namespace foretrain::report {

// One thing of a catalogue, for a list.
struct CatalogueEntry {
  std::string name;
  Message summary;
  std::vector<std::string> aliases;
};
std::string catalogue_table(const std::string& kind, const std::vector<CatalogueEntry>& entries,
                            const Terminal& terminal);
std::string catalogue_json(const std::string& kind, const std::vector<CatalogueEntry>& entries);

// A YAML value as JSON: plain scalars that are numbers or booleans become such.
std::string node_json(const config::Node& node);

}  // namespace foretrain::report
