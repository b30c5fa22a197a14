#include "sim/scenario/flag_values.h"

#include <algorithm>
#include <memory>

#include "sim/config/quote.h"
#include "sim/config/write.h"

namespace foretrain {
namespace {

using config::Node;

constexpr std::size_t kDeepestPath = 6;

void place_at(Node& node, const SourcePosition& position) {
  node.position = position;
  if (node.is_sequence()) {
    for (Node& item : std::get<Node::Sequence>(node.value)) place_at(item, position);
  } else if (node.is_map()) {
    for (Node::Entry& entry : node.map()) {
      entry.key_position = position;
      place_at(entry.value, position);
    }
  }
}

// Text in brackets is YAML, all else a plain value.
std::optional<Node> parse_value(const FlagValue& given, Diagnostics& diagnostics) {
  const bool in_brackets = given.text.starts_with('{') || given.text.starts_with('[');
  if (!in_brackets) return Node{position_of_flag(given.flag), given.text, false};
  std::optional<Node> node = config::parse_yaml(given.text, given.flag, diagnostics);
  if (node) place_at(*node, position_of_flag(given.flag));
  return node;
}

// {plan: {zero: value}} for the path "plan.zero".
Node nested(const std::string& path, Node value) {
  std::vector<std::string> keys = split_outside_brackets(path, '.');
  for (auto key = keys.rbegin(); key != keys.rend(); ++key) {
    Node outer = config::empty_map(value.position);
    config::set_entry(outer, *key, std::move(value));
    value = std::move(outer);
  }
  return value;
}

bool is_key(const std::string& text) {
  const auto fits = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; };
  return !text.empty() && std::all_of(text.begin(), text.end(), fits);
}

// The value of a field as a map to lay over a case. GPUs and nodes may say how many they are.
std::optional<Node> overlay_of(const FlagValue& given, Diagnostics& diagnostics) {
  const std::vector<std::string> keys = split_outside_brackets(given.path, '.');
  if (keys.size() > kDeepestPath || !std::all_of(keys.begin(), keys.end(), is_key)) {
    diagnostics.error(position_of_flag("command line"),
                      message("{} is no path of a scenario; for instance plan.zero", config::in_quotes(given.path)));
    return std::nullopt;
  }
  Node overlay = config::empty_map(position_of_flag(given.flag));
  for (const FlagValue& one : spelled_out({given})) {
    std::optional<Node> value = parse_value(one, diagnostics);
    if (!value) return std::nullopt;
    overlay = merge(overlay, nested(one.path, std::move(*value)));
  }
  return overlay;
}

}  // namespace

SourcePosition position_of_flag(const std::string& flag) { return {std::make_shared<const std::string>(flag), 0, 0}; }

std::vector<std::string> split_outside_brackets(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (const char c : text) {
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') --depth;
    if (c == separator && depth <= 0) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

std::pair<std::string, std::string> name_and_count(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon + 1 == text.size()) return {text, ""};
  const std::string count = text.substr(colon + 1);
  const bool digits = std::all_of(count.begin(), count.end(), [](char c) { return c >= '0' && c <= '9'; });
  return digits ? std::pair(text.substr(0, colon), count) : std::pair(text, std::string());
}

std::vector<FlagValue> spelled_out(const std::vector<FlagValue>& values) {
  std::vector<FlagValue> all;
  for (const FlagValue& given : values) {
    const bool machine = given.path == "cluster.gpu" || given.path == "cluster.node";
    const auto [name, count] = machine ? name_and_count(given.text) : std::pair(given.text, std::string());
    all.push_back({given.flag, given.path, name});
    if (!count.empty()) all.push_back({given.flag, given.path + "s", count});
  }
  return all;
}

std::optional<Node> case_of(const std::vector<FlagValue>& values, Diagnostics& diagnostics) {
  Node result = config::empty_map(position_of_flag("command line"));
  for (const FlagValue& given : values) {
    const auto overlay = overlay_of(given, diagnostics);
    if (!overlay) return std::nullopt;
    result = merge(result, *overlay);
  }
  return result;
}

}  // namespace foretrain
