#include "sim/scenario/document.h"

#include <fmt/format.h>

#include <map>
#include <numeric>

#include "sim/config/quote.h"
#include "sim/config/reader.h"

namespace foretrain {
namespace {

using config::MapReader;
using config::Node;

constexpr std::size_t kMostCases = 10'000;
constexpr std::size_t kMostBaseValues = 1'000;  // the base is copied into every case

std::size_t count_values(const Node& node) {
  std::size_t count = 1;
  if (node.is_sequence()) {
    for (const Node& item : node.sequence()) count += count_values(item);
  } else if (node.is_map()) {
    for (const Node::Entry& entry : node.map()) count += count_values(entry.value);
  }
  return count;
}

void read_source(const Node* node, Document& document, Diagnostics& diagnostics) {
  if (node == nullptr) return;
  MapReader source(*node, diagnostics, "source");
  document.source_title = source.text("title").value_or("");
  document.source_url = source.text("url").value_or("");
  source.text("date");
  source.node("also");  // further sources, free form
  source.finish();
}

void check_base(const Node* base, Diagnostics& diagnostics) {
  if (base == nullptr) return;
  if (!base->is_map()) {
    diagnostics.error(base->position, message("base must be a map of what all cases share"));
  } else if (base->find("name") != nullptr) {
    diagnostics.error(base->find("name")->position, message("base cannot have a name: every case needs its own"));
  } else if (count_values(*base) > kMostBaseValues) {
    diagnostics.error(base->position, message("base has more than {} values", kMostBaseValues));
  }
}

void check_cases(const Document& document, const Node& root, Diagnostics& diagnostics) {
  if (document.cases == nullptr) {
    if (document.base == nullptr) diagnostics.error(root.position, message("cases is missing; list at least one case"));
  } else if (!document.cases->is_sequence() || document.cases->sequence().empty()) {
    diagnostics.error(document.cases->position, message("cases must be a list of at least one case"));
  } else if (document.cases->sequence().size() > kMostCases) {
    diagnostics.error(document.cases->position, message("there are {} cases; at most {} are allowed",
                                                        document.cases->sequence().size(), kMostCases));
  }
}

std::string case_name(const Node& node, std::size_t index, Diagnostics& diagnostics) {
  const Node* written = present(node.find("name"));
  if (written == nullptr) return fmt::format("case {}", index + 1);
  if (written->is_scalar() && !written->scalar().empty()) return written->scalar();
  diagnostics.error(written->position, message("the name of a case must be text"));
  return "";
}

}  // namespace

std::optional<Document> read_document(const Node& root, Diagnostics& diagnostics) {
  const int errors_before = diagnostics.error_count();
  MapReader reader(root, diagnostics, "");
  Document document;
  document.title = reader.text("title").value_or("");
  const std::array asks = {Scenario::Ask::faster, Scenario::Ask::cheaper, Scenario::Ask::fits};
  if (const Node* asked = reader.node("ask"); asked != nullptr && asked->is_scalar() && asked->scalar() == "rent") {
    diagnostics.error(asked->position, message("a question of what to rent is answered by foretrain rent FILE"));
    return std::nullopt;
  }
  if (const auto ask = reader.choice("ask", {"faster", "cheaper", "fits"})) document.ask = asks[*ask];
  read_source(present(reader.node("source")), document, diagnostics);
  document.base = present(reader.node("base"));
  document.cases = present(reader.node("cases"));
  reader.finish();
  if (root.is_map() || root.is_null()) {
    check_base(document.base, diagnostics);
    check_cases(document, root, diagnostics);
  }
  if (diagnostics.error_count() > errors_before) return std::nullopt;
  return document;
}

void for_each_case(const Document& document, Diagnostics& diagnostics,
                   const std::function<void(const Node&, const std::string&)>& visit) {
  if (document.cases == nullptr) return visit(*document.base, "case 1");
  std::map<std::string, SourcePosition> seen;
  std::size_t index = 0;
  for (const Node& node : document.cases->sequence()) {
    if (!node.is_map()) {
      diagnostics.error(node.position, message("case {} must be a map", ++index));
      continue;
    }
    const std::string name = case_name(node, index++, diagnostics);
    const auto [first, is_new] = seen.emplace(name, node.position);
    if (!is_new) {
      diagnostics.error(node.find("name") != nullptr ? node.find("name")->position : node.position,
                        message("a second case is called {}, the first is in line {}; rename one",
                                config::in_quotes(name), first->second.line));
    }
    visit(document.base != nullptr ? merge(*document.base, node) : node, name);
  }
}

SoftwareNeeds needs_of_cases(const Document& document) {
  SoftwareNeeds needs;
  Diagnostics said_later;  // when the cases are read
  for_each_case(document, said_later, [&](const Node& node, const std::string&) { needs.add(node); });
  return needs;
}

}  // namespace foretrain
