#include "sim/calibration/constant_files.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/calibration/yaml_text.h"
#include "sim/config/quote.h"
#include "sim/config/reader.h"

namespace foretrain {
namespace {

using config::MapReader;
using config::Node;
using config::Unit;

constexpr std::size_t kWidth = 120;
constexpr double kUsualFactor = 5.0;  // a fit goes no further from the given value unless the rule says so

bool is_rule(const Node& node) { return node.is_map() && node.find("value") != nullptr; }

void read_rules(const Node& node, const std::string& name, Diagnostics& diagnostics, std::vector<ConstantRule>& rules) {
  if (is_rule(node)) {
    MapReader map(node, diagnostics, name);
    ConstantRule rule;
    rule.name = name;
    rule.value = map.required_number("value", Unit::count, {1e-9, 1e12});
    rule.take_fit = map.choice("take", {"value", "fit"}).value_or(0) == 1;
    rule.min = map.number("min", Unit::count, {1e-9, 1e12}).value_or(rule.value / kUsualFactor);
    rule.max = map.number("max", Unit::count, {1e-9, 1e12}).value_or(rule.value * kUsualFactor);
    map.text("note");
    map.finish();
    if (rule.min > rule.value || rule.max < rule.value) {
      diagnostics.error(node.position, message("{} is {} and not from {} to {}", name, rule.value, rule.min, rule.max));
    }
    rules.push_back(std::move(rule));
  } else if (node.is_map()) {
    for (const Node::Entry& entry : node.map()) {
      read_rules(entry.value, name.empty() ? entry.key : name + "." + entry.key, diagnostics, rules);
    }
  } else if (!node.is_scalar()) {
    diagnostics.error(node.position, message("{} must be a constant, such as {{value: 1.5}}, or a map of them", name));
  }
}

// Three significant digits, without an exponent for what constants are.
std::string three_digits(double value) {
  return value < 1000 ? fmt::format("{:.3g}", value) : fmt::format("{:.0f}", std::stod(fmt::format("{:.2e}", value)));
}

// Where a constant comes from, for the comment behind it.
std::string origin(const Node& rule, bool taken, const ConstantFit* fit) {
  std::string text;
  if (fit == nullptr || fit->points == 0) {
    text = "given: not measured here";
  } else {
    const std::string from = fmt::format("{} point{} of {} machine{}", fit->points, fit->points == 1 ? "" : "s",
                                         fit->systems.size(), fit->systems.size() == 1 ? "" : "s");
    text = taken ? fmt::format("fit of {}; given {}", from, rule.find("value")->scalar())
                 : fmt::format("given; {} say{} {}", from, fit->points == 1 ? "s" : "", three_digits(fit->fitted));
    if (fit->at_bound) text += ", at the bound of what is physical";
    if (!fit->detail.empty()) text += ", " + fit->detail;
  }
  const Node* note = rule.find("note");
  return note != nullptr && note->is_scalar() ? text + "; " + note->scalar() : text;
}

class Writer {
 public:
  Writer(const ConstantRules& rules, std::span<const ConstantFit> fits) : rules_(rules), fits_(fits) {}

  std::string write(const Node& map, const std::string& name, std::size_t indent) const {
    std::string text;
    const std::string pad(indent, ' ');
    for (const Node::Entry& entry : map.map()) {
      if (entry.key == "about") continue;  // stands above the map
      const std::string full = name + "." + entry.key;
      if (is_rule(entry.value)) {
        text += constant(entry.key, entry.value, full, indent);
      } else if (entry.value.is_map()) {
        const Node* about = entry.value.find("about");
        if (indent == 0) text += "\n";
        if (about != nullptr && about->is_scalar()) text += comment_lines(about->scalar(), indent);
        text += fmt::format("{}{}:\n", pad, entry.key) + write(entry.value, full, indent + 2);
      } else {
        text += scalar(entry.key, entry.value, indent);
      }
    }
    return text;
  }

 private:
  static std::string scalar(const std::string& key, const Node& node, std::size_t indent) {
    const std::string start = fmt::format("{}{}: ", std::string(indent, ' '), key);
    const bool text = node.quoted || node.scalar().find(' ') != std::string::npos;
    return start + (text ? quoted_scalar(node.scalar(), start.size(), indent + 2) : node.scalar()) + "\n";
  }

  std::string constant(const std::string& key, const Node& node, const std::string& full, std::size_t indent) const {
    const auto fit = std::find_if(fits_.begin(), fits_.end(), [&](const ConstantFit& f) { return f.name == full; });
    const ConstantFit* found = fit != fits_.end() ? &*fit : nullptr;
    const ConstantRule* rule = rules_.find(full);
    const bool taken = rule != nullptr && rule->take_fit && found != nullptr && found->points > 0;
    const std::string value = taken ? three_digits(found->fitted) : node.find("value")->scalar();
    const std::string line = fmt::format("{}{}: {}", std::string(indent, ' '), key, value);
    const std::string why = origin(node, taken, found);
    if (line.size() + why.size() + 4 <= kWidth) return fmt::format("{}  # {}\n", line, why);
    return comment_lines(why, indent) + line + "\n";
  }

  const ConstantRules& rules_;
  std::span<const ConstantFit> fits_;
};

}  // namespace

const ConstantRule* ConstantRules::find(std::string_view name) const {
  const auto rule = std::find_if(rules.begin(), rules.end(), [&](const ConstantRule& r) { return r.name == name; });
  return rule != rules.end() ? &*rule : nullptr;
}

std::vector<std::string> ConstantRules::files() const {
  std::vector<std::string> names;
  for (const Node::Entry& entry : tree.map()) names.push_back(entry.key);
  return names;
}

std::optional<ConstantRules> load_constant_rules(const std::string& path, Diagnostics& diagnostics) {
  const int errors_before = diagnostics.error_count();
  std::optional<Node> node = config::parse_yaml_file(path, diagnostics);
  if (!node) return std::nullopt;
  if (!node->is_map()) {
    diagnostics.error(node->position, message("the rules of constants are a map of files: collectives, hosts, links"));
    return std::nullopt;
  }
  for (const Node::Entry& entry : node->map()) {
    const bool known = entry.key == "collectives" || entry.key == "hosts" || entry.key == "links";
    if (known && entry.value.is_map()) continue;
    diagnostics.error(entry.key_position,
                      message("{} is not a map named collectives, hosts or links", config::in_quotes(entry.key)));
  }
  ConstantRules rules;
  read_rules(*node, "", diagnostics, rules.rules);
  rules.tree = std::move(*node);
  if (diagnostics.error_count() > errors_before) return std::nullopt;
  return rules;
}

std::string constant_file_text(const ConstantRules& rules, std::string_view file, std::span<const ConstantFit> fits,
                               std::span<const std::string> notes) {
  const Node* tree = rules.tree.find(file);
  if (tree == nullptr || !tree->is_map()) return "";
  const Node* about = tree->find("about");
  std::string text = about != nullptr && about->is_scalar() ? comment_lines(about->scalar(), 0) + "#\n" : "";
  text += comment_lines(fmt::format("Written by `foretrain calibrate` from the measurements and rules in "
                                    "hardware/measurements ({}.yaml, constants.yaml): change those, not this file.",
                                    file == "hosts" ? "hosts" : "collectives"),
                        0);
  for (const std::string& note : notes) text += comment_lines(note, 0);
  return text + Writer(rules, fits).write(*tree, std::string(file), 0);
}

config::Node given_constants(const ConstantRules& rules, std::string_view file, Diagnostics& diagnostics) {
  const std::string text = constant_file_text(rules, file, {}, {});
  return config::parse_yaml(text, "constants.yaml, as given", diagnostics).value_or(Node{});
}

}  // namespace foretrain
