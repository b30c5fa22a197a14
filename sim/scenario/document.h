#pragma once

#include <functional>
#include <optional>
#include <string>

#include "sim/config/tree.h"
#include "sim/scenario/scenario.h"
#include "sim/scenario/software_default.h"

namespace foretrain {

// The frame of a scenario or measured file, before its cases are understood.
struct Document {
  std::string title, source_title, source_url;
  Scenario::Ask ask = Scenario::Ask::faster;
  const config::Node* base = nullptr;   // of the document that was read; may be absent
  const config::Node* cases = nullptr;  // a non-empty sequence, or absent: then the base is the only case
};

// The document must outlive the result.
std::optional<Document> read_document(const config::Node& root, Diagnostics& diagnostics);

// Calls visit(case map merged over the base, its name, its index) for each case in order; names are checked to be
// unique. One merged case is alive at a time: a file of many cases and a large base takes no more memory than its text.
void for_each_case(const Document& document, Diagnostics& diagnostics,
                   const std::function<void(const config::Node&, const std::string&)>& visit);

// What all of its cases together ask of a framework.
SoftwareNeeds needs_of_cases(const Document& document);

}  // namespace foretrain
