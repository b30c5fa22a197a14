#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "sim/base/diagnostics.h"

namespace foretrain::config {

// One value of a YAML document with the place it was read from.
//
// Our own tree rather than YAML::Node: it keeps positions through merging, sees duplicate keys, is bounded in
// size and depth, and cannot be changed behind the reader's back.
struct Node {
  struct Null {};
  using Sequence = std::vector<Node>;
  struct Entry;  // {key, key position, value}
  using Map = std::vector<Entry>;

  SourcePosition position;
  std::variant<Null, std::string, Sequence, Map> value;
  bool quoted = false;  // a scalar written in quotes is text whatever it looks like

  bool is_null() const { return std::holds_alternative<Null>(value); }
  bool is_scalar() const { return std::holds_alternative<std::string>(value); }
  bool is_sequence() const { return std::holds_alternative<Sequence>(value); }
  bool is_map() const { return std::holds_alternative<Map>(value); }
  const std::string& scalar() const { return std::get<std::string>(value); }
  const Sequence& sequence() const { return std::get<Sequence>(value); }
  const Map& map() const { return std::get<Map>(value); }
  Map& map() { return std::get<Map>(value); }

  // The value of a key of a map, or nullptr.
  const Node* find(std::string_view key) const;
};

struct Node::Entry {
  std::string key;
  SourcePosition key_position;
  Node value;
};

// The node, or nullptr where it is a null: what was left out and what was left empty are the same.
inline const Node* present(const Node* node) { return node == nullptr || node->is_null() ? nullptr : node; }
// Whether a map has a value for a key.
inline bool is_written(const Node& map, std::string_view key) {
  return map.is_map() && present(map.find(key)) != nullptr;
}

// Parses one YAML document. Syntax errors, duplicate keys, more than one document, documents over 64 MiB, over
// 2 million values (aliases counted where they are repeated) or nested deeper than 64 levels, and a single value or
// bracketed list over 1 MiB are reported as errors, and nothing is returned. So are merge keys ("<<"), tags ("!!int"),
// keys that are not text, and bytes that are not UTF-8 text. An empty document is a null. Plain "~", "null" and
// nothing at all are null. Built on yaml-cpp's event parser.
std::optional<Node> parse_yaml(std::string_view text, const std::string& file_name, Diagnostics& diagnostics);
std::optional<Node> parse_yaml_file(const std::string& path, Diagnostics& diagnostics);

// `over` laid over `base`: maps merge key by key (deep), everything else replaces. A map key that is in both but is
// not a map in both is replaced whole. Positions stay those of where each value was written; a merged map has that of
// `base`. Keys keep the order of `base`; new ones follow in the order of `over`.
Node merge(const Node& base, const Node& over);

}  // namespace foretrain::config
