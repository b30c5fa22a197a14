#include "sim/scenario/flags.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/config/write.h"
#include "sim/scenario/fields.h"

namespace foretrain {
namespace {

using config::Node;

std::string scalar_at(const Node& node, std::string_view map, std::string_view key) {
  const Node* inner = node.find(map);
  const Node* value = inner == nullptr ? nullptr : inner->find(key);
  return value != nullptr && value->is_scalar() ? value->scalar() : "";
}

// "8 x a100-40g", "2 x dgx-a100-80g"; empty if the case names no machine.
std::string machine_of(const Node& node) {
  const std::string catalogue_node = scalar_at(node, "cluster", "node"), gpu = scalar_at(node, "cluster", "gpu");
  const std::string name = catalogue_node.empty() ? gpu : catalogue_node;
  const std::string count = scalar_at(node, "cluster", catalogue_node.empty() ? "gpus" : "nodes");
  return name.empty() || count.empty() ? name : fmt::format("{} x {}", count, name);
}

// Whether there is something that values can be laid over.
bool has_cases(const Node& root) {
  const Node *base = root.find("base"), *cases = root.find("cases");
  const auto is_map = [](const Node& node) { return node.is_map(); };
  if (!root.is_map() || (present(base) != nullptr && !base->is_map())) return false;
  if (present(cases) == nullptr) return true;
  return cases->is_sequence() && std::all_of(cases->sequence().begin(), cases->sequence().end(), is_map);
}

// The cases of a document with its base merged in, or what the flags alone describe.
struct Cases {
  std::vector<Node> cases;
  bool named_by_machine = false;
};

Cases cases_of(const Node* document, const SourcePosition& command_line) {
  if (document == nullptr) return {{config::empty_map(command_line)}, true};
  const Node* cases = document->find("cases");
  if (present(cases) != nullptr) return {cases->sequence(), false};
  const Node* base = document->find("base");
  return {{base != nullptr && base->is_map() ? *base : config::empty_map(document->position)}, true};
}

// Every case once for every variant of one variation.
void multiply(std::vector<Node>& cases, std::vector<std::string>& labels, const std::vector<Variant>& variants,
              bool named_by_machine) {
  std::vector<Node> product;
  std::vector<std::string> product_labels;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    for (const Variant& variant : variants) {
      product.push_back(merge(cases[i], variant.overlay));
      const bool said = named_by_machine && variant.names_machine;
      product_labels.push_back(labels[i] + (said ? "" : (labels[i].empty() ? "" : ", ") + variant.label));
    }
  }
  cases = std::move(product);
  labels = std::move(product_labels);
}

void name_cases(std::vector<Node>& cases, const std::vector<std::string>& labels, bool named_by_machine) {
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const Node* written = cases[i].find("name");
    std::string name = written != nullptr && written->is_scalar() ? written->scalar()
                       : named_by_machine                         ? machine_of(cases[i])
                                                                  : fmt::format("case {}", i + 1);
    if (!labels[i].empty()) name += (name.empty() ? "" : ", ") + labels[i];
    if (name.empty()) continue;
    Node named = config::empty_map(cases[i].position);
    config::set_entry(named, "name", Node{cases[i].position, name, false});
    cases[i] = merge(merge(named, cases[i]), named);  // in front, and over a name of before
  }
}

// Takes fields of the whole file to its root; those of cases come back.
std::vector<FlagValue> set_file_fields(const std::vector<FlagValue>& values, Node& root) {
  std::vector<FlagValue> of_cases;
  for (const FlagValue& given : values) {
    const Field* field = find_field(given.path);
    if (field != nullptr && field->place == Field::Place::file) {
      config::set_entry(root, given.path, Node{position_of_flag(given.flag), given.text, false});
    } else {
      of_cases.push_back(given);
    }
  }
  return of_cases;
}

bool names_model(const Node& node, Diagnostics& diagnostics) {
  if (node.find("model") != nullptr) return true;
  diagnostics.error(position_of_flag("command line"), message("--model is missing; for instance --model llama-2-7b"));
  return false;
}

// What nothing can be assumed for.
bool describes_a_run(const Node& node, Diagnostics& diagnostics) {
  const bool has_model = names_model(node, diagnostics), has_machine = !machine_of(node).empty();
  if (!has_machine) {
    diagnostics.error(position_of_flag("command line"),
                      message("--gpu or --node is missing; for instance --gpu a100-80g --gpus 8"));
  }
  return has_model && has_machine;
}

}  // namespace

std::optional<Node> with_flags(const Node* document, const std::vector<FlagValue>& values,
                               const std::vector<Variation>& variations, Diagnostics& diagnostics) {
  const int errors_before = diagnostics.error_count();
  const SourcePosition command_line = position_of_flag("command line");
  Node root = document != nullptr ? *document : config::empty_map(command_line);
  if (!has_cases(root)) return root;  // the reader says what is wrong with it

  const std::vector<FlagValue> of_cases = set_file_fields(values, root);
  const std::optional<Node> overlay = case_of(of_cases, diagnostics);
  std::vector<std::vector<Variant>> varied;
  for (const Variation& text : variations) varied.push_back(read_variation(text, diagnostics));
  if (diagnostics.error_count() > errors_before) return std::nullopt;
  if (document != nullptr && of_cases.empty() && varied.empty()) return root;

  auto [cases, named_by_machine] = cases_of(document, command_line);
  std::size_t count = cases.size();
  for (const auto& variants : varied) count = std::min(count * variants.size(), kMostVariedCases + 1);
  if (!varied.empty() && count > kMostVariedCases) {
    diagnostics.error(position_of_flag("--vary"),
                      message("that makes more than {} cases; vary fewer values", kMostVariedCases));
    return std::nullopt;
  }
  for (Node& one : cases) one = merge(one, *overlay);
  std::vector<std::string> labels(cases.size());
  for (const auto& variants : varied) multiply(cases, labels, variants, named_by_machine);
  if (document == nullptr && !describes_a_run(cases.front(), diagnostics)) return std::nullopt;
  if (document == nullptr || !varied.empty()) name_cases(cases, labels, named_by_machine);

  const bool from_base = document != nullptr && named_by_machine;
  if (from_base) std::erase_if(root.map(), [](const Node::Entry& entry) { return entry.key == "base"; });
  config::set_entry(root, "cases", Node{command_line, Node::Sequence(std::move(cases)), false});
  return root;
}

std::optional<Node> job_with_flags(const Node* document, const std::vector<FlagValue>& values,
                                   Diagnostics& diagnostics) {
  Node root = document != nullptr ? *document : config::empty_map(position_of_flag("command line"));
  if (!root.is_map()) return root;  // the reader says what is wrong with it
  const std::vector<FlagValue> of_job = set_file_fields(values, root);
  const std::optional<Node> job = case_of(of_job, diagnostics);
  if (!job) return std::nullopt;
  const Node* base = root.find("base");
  if (base != nullptr && !base->is_map()) return root;
  if (base != nullptr || !of_job.empty()) config::set_entry(root, "base", base != nullptr ? merge(*base, *job) : *job);
  if (document == nullptr && !names_model(*job, diagnostics)) return std::nullopt;
  return root;
}

}  // namespace foretrain
