#pragma once

#include <functional>
#include <string>

#include "sim/config/tree.h"

namespace foretrain::config {

// What to say beside the key at a path ("train.seq_len"; items of lists have the path of their list); empty: nothing.
using CommentOf = std::function<std::string(const std::string& path)>;

// A YAML document that parse_yaml() reads as the same values. Maps that fit on a line are written on one, unless there
// are comments to write beside their keys.
std::string write_yaml(const Node& node, const CommentOf& comment_of = {});

// A map of the tree, empty; an entry that takes the place of one with the same key.
Node empty_map(SourcePosition position = {});
void set_entry(Node& map, std::string key, Node value);

}  // namespace foretrain::config
