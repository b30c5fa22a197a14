#include <algorithm>
#include <map>

#include "sim/claims/claims.h"
#include "sim/config/quote.h"
#include "sim/scenario/case_reader.h"
#include "sim/scenario/document.h"

namespace foretrain {
namespace {

using config::MapReader;
using config::Node;

constexpr std::size_t kMostClaims = 10'000;
constexpr std::size_t kMostChecks = 1'000;  // of one claim
constexpr config::Range kTolerances = {0, 1};

// Feature names once, in the order they were met.
void add_refusals(const Diagnostics& said, ClaimCase& result, Diagnostics& diagnostics) {
  for (const Diagnostic& d : said.all()) {
    if (d.severity == Severity::error) diagnostics.error(d.position, d.message);
    if (d.severity != Severity::unsupported) continue;
    if (std::find(result.refusals.begin(), result.refusals.end(), d.message.english()) == result.refusals.end()) {
      result.refusals.push_back(d.message.english());
    }
  }
}

// The cases of a claim are those of the scenario that its `base` and `cases` make.
std::vector<ClaimCase> read_cases(const Node* base, const Node& cases, CaseReader& reader, Diagnostics& diagnostics) {
  Node::Map scenario;
  if (base != nullptr) scenario.push_back({"base", base->position, *base});
  scenario.push_back({"cases", cases.position, cases});
  const Node root{cases.position, std::move(scenario)};
  std::vector<ClaimCase> result;
  const std::optional<Document> document = read_document(root, diagnostics);
  if (!document) return result;
  reader.compare_by(needs_of_cases(*document));
  for_each_case(*document, diagnostics, [&](const Node& node, const std::string& name) {
    Diagnostics said;
    result.push_back({name, reader.read(node, name, said), {}});
    add_refusals(said, result.back(), diagnostics);
  });
  return result;
}

void check_case_names(const Claim& claim, Diagnostics& diagnostics) {
  std::vector<std::string> names;
  for (const ClaimCase& c : claim.cases) names.push_back(c.name);
  std::vector<bool> used(names.size(), false);
  for (const Check& check : claim.checks) {
    for (const std::string& name : check.cases) {
      const auto found = std::find(names.begin(), names.end(), name);
      if (found != names.end()) {
        used[static_cast<std::size_t>(found - names.begin())] = true;
      } else {
        diagnostics.error(check.position, message("claim {} has no case {}{}", config::in_quotes(claim.id),
                                                  config::in_quotes(name), did_you_mean(name, names)));
      }
    }
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (!used[i]) {
      diagnostics.warning(claim.position, message("no check of claim {} looks at its case {}",
                                                  config::in_quotes(claim.id), config::in_quotes(names[i])));
    }
  }
}

void read_checks(const Node& node, Claim& claim, Diagnostics& diagnostics) {
  if (!node.is_sequence() || node.sequence().empty() || node.sequence().size() > kMostChecks) {
    diagnostics.error(node.position, message("checks must be a list of 1 to {} checks", kMostChecks));
    return;
  }
  for (const Node& item : node.sequence()) {
    if (std::optional<Check> check = read_check(item, diagnostics)) claim.checks.push_back(std::move(*check));
  }
}

Claim read_claim(const Node& node, const Node* shared_base, double tolerance, CaseReader& cases,
                 Diagnostics& diagnostics) {
  MapReader reader(node, diagnostics, "claim");
  Claim claim;
  claim.position = node.position;
  claim.id = reader.required_text("id");
  claim.says = reader.required_text("claim");
  claim.evidence = reader.text_list("evidence").value_or(std::vector<std::string>{});
  const std::vector<std::string> trusts = {"high", "medium", "low"};
  if (const auto trust = reader.choice("trust", trusts)) claim.trust = trusts[*trust];
  reader.text_list("guessed");  // fields that the source does not state
  claim.tolerance = reader.number("tolerance", config::Unit::count, kTolerances).value_or(tolerance);
  claim.needs = reader.text_list("needs").value_or(std::vector<std::string>{});
  claim.out_of_scope = reader.text("out_of_scope").value_or("");
  const Node *base = present(reader.node("base")), *case_list = present(reader.node("cases"));
  const Node* checks = present(reader.node("checks"));
  reader.finish();

  std::optional<Node> merged;
  if (base != nullptr && shared_base != nullptr) merged = merge(*shared_base, *base);
  const Node* whole_base = merged ? &*merged : base != nullptr ? base : shared_base;
  const bool left_aside = !claim.needs.empty() || !claim.out_of_scope.empty();
  if (!left_aside && node.is_map() && (case_list == nullptr || checks == nullptr)) {
    diagnostics.error(node.position, message("claim {} needs cases and checks, or needs or out_of_scope to say why "
                                             "it has none",
                                             config::in_quotes(claim.id)));
  }
  const int errors_before = diagnostics.error_count();
  if (case_list != nullptr) claim.cases = read_cases(whole_base, *case_list, cases, diagnostics);
  if (checks != nullptr) read_checks(*checks, claim, diagnostics);
  if (diagnostics.error_count() == errors_before) check_case_names(claim, diagnostics);
  return claim;
}

}  // namespace

std::optional<ClaimFile> read_claims(const Node& root, const DataFolder& data, Diagnostics& diagnostics) {
  const int errors_before = diagnostics.error_count();
  MapReader reader(root, diagnostics, "");
  ClaimFile file;
  file.title = reader.text("title").value_or("");
  const double tolerance = reader.number("tolerance", config::Unit::count, kTolerances).value_or(0);
  const Node *base = present(reader.node("base")), *claims = present(reader.node("claims"));
  reader.finish();
  if (base != nullptr && !base->is_map())
    diagnostics.error(base->position, message("base must be a map of what all cases share"));
  if (claims == nullptr || !claims->is_sequence() || claims->sequence().empty()) {
    diagnostics.error(claims == nullptr ? root.position : claims->position,
                      message("claims must be a list of at least one claim"));
  } else if (claims->sequence().size() > kMostClaims) {
    diagnostics.error(claims->position,
                      message("there are {} claims; at most {} are allowed", claims->sequence().size(), kMostClaims));
  }
  if (diagnostics.error_count() > errors_before) return std::nullopt;
  CaseReader cases(data);
  std::map<std::string, SourcePosition> seen;
  for (const Node& node : claims->sequence()) {
    file.claims.push_back(read_claim(node, base, tolerance, cases, diagnostics));
    const std::string& id = file.claims.back().id;
    const auto [first, is_new] = seen.emplace(id, node.position);
    if (!is_new) {
      diagnostics.error(node.position, message("a second claim is called {}, the first is in line {}; rename one",
                                               config::in_quotes(id), first->second.line));
    }
  }
  if (diagnostics.error_count() > errors_before) return std::nullopt;
  return file;
}

std::optional<ClaimFile> load_claims(const std::string& path, const DataFolder& data, Diagnostics& diagnostics) {
  const std::optional<Node> root = config::parse_yaml_file(path, diagnostics);
  std::optional<ClaimFile> file = root ? read_claims(*root, data, diagnostics) : std::nullopt;
  if (file) file->path = path;
  return file;
}

}  // namespace foretrain
