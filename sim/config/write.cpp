#include "sim/config/write.h"

#include <fmt/format.h>

#include <algorithm>

namespace foretrain::config {
namespace {

constexpr std::size_t kLineWidth = 110;

bool is_alphanumeric(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); }

// Text that YAML reads as itself without quotes, also between brackets.
bool is_plain(const std::string& text) {
  if (text.empty() || text.back() == ' ' || text == "null" || text == "Null" || text == "NULL") return false;
  if (!is_alphanumeric(text[0]) && text[0] != '.' && text[0] != '/') {
    const bool signed_number =
        (text[0] == '-' || text[0] == '+') && text.size() > 1 && text[1] != ' ' && text[1] != '-';
    if (!signed_number) return false;
  }
  return std::all_of(text.begin(), text.end(), [](char c) {
    return is_alphanumeric(c) || std::string_view(" ._/+-()%=").find(c) != std::string_view::npos;
  });
}

std::string scalar_text(const std::string& text, bool quoted) {
  if (!quoted && is_plain(text)) return text;
  const bool has_breaks = text.find_first_of("\n\r\t") != std::string::npos;
  std::string result(1, has_breaks ? '"' : '\'');
  for (const char c : text) {
    if (!has_breaks) {
      result += c == '\'' ? "''" : std::string(1, c);
    } else if (c == '\n' || c == '\r' || c == '\t') {
      result += c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t";
    } else {
      if (c == '"' || c == '\\') result += '\\';
      result += c;
    }
  }
  return result + result[0];
}

std::string in_brackets(const Node& node) {
  if (node.is_null()) return "null";
  if (node.is_scalar()) return scalar_text(node.scalar(), node.quoted);
  std::vector<std::string> parts;
  if (node.is_sequence()) {
    for (const Node& item : node.sequence()) parts.push_back(in_brackets(item));
    return fmt::format("[{}]", fmt::join(parts, ", "));
  }
  for (const Node::Entry& entry : node.map()) {
    parts.push_back(fmt::format("{}: {}", scalar_text(entry.key, false), in_brackets(entry.value)));
  }
  return fmt::format("{{{}}}", fmt::join(parts, ", "));
}

bool is_empty(const Node& node) {
  return (node.is_map() && node.map().empty()) || (node.is_sequence() && node.sequence().empty());
}

bool has_no_maps(const Node& node) {
  if (node.is_map()) return false;
  return !node.is_sequence() || std::all_of(node.sequence().begin(), node.sequence().end(), has_no_maps);
}

class Writer {
 public:
  explicit Writer(const CommentOf& comment_of) : comment_of_(comment_of) {}

  // Appends `node` in lines of their own.
  void block(const Node& node, std::size_t indent, const std::string& path) {
    if (node.is_sequence() && !is_empty(node)) {
      for (const Node& item : node.sequence()) list_item(item, indent, path);
    } else if (node.is_map() && !is_empty(node)) {
      for (const Node::Entry& entry : node.map()) map_entry(entry, indent, path);
    } else {
      line(indent, in_brackets(node), "");
    }
  }

  std::string text;

 private:
  void line(std::size_t indent, const std::string& content, const std::string& comment) {
    const std::string margin(indent, ' ');
    if (comment.empty()) {
      text += margin + content + '\n';
    } else if (indent + content.size() + comment.size() + 4 <= kLineWidth) {
      text += margin + content + "  # " + comment + '\n';
    } else {
      text += margin + "# " + comment + '\n' + margin + content + '\n';
    }
  }

  bool fits(const Node& node, std::size_t used) const {
    if (node.is_scalar() || node.is_null() || is_empty(node)) return true;
    const bool simple = node.is_sequence() ? has_no_maps(node) || !comment_of_ : !comment_of_;
    return simple && used + in_brackets(node).size() <= kLineWidth;
  }

  void map_entry(const Node::Entry& entry, std::size_t indent, const std::string& path) {
    const std::string here = path.empty() ? entry.key : path + "." + entry.key;
    const std::string key = scalar_text(entry.key, false);
    const std::string comment = comment_of_ ? comment_of_(here) : "";
    const bool of_maps = entry.value.is_sequence() && !has_no_maps(entry.value) && indent == 0;
    if (!of_maps && fits(entry.value, indent + key.size() + 2)) {
      line(indent, fmt::format("{}: {}", key, in_brackets(entry.value)), comment);
    } else {
      line(indent, key + ":", comment);
      block(entry.value, indent + 2, here);
    }
  }

  void list_item(const Node& item, std::size_t indent, const std::string& path) {
    if (fits(item, indent + 2) && !(item.is_map() && indent == 2)) {
      line(indent, "- " + in_brackets(item), "");
      return;
    }
    const std::size_t begin = text.size();
    block(item, indent + 2, path);
    // The item's first line that is no comment gets the dash.
    std::size_t at = begin + indent + 2;
    while (text[at] == '#') at = text.find('\n', at) + 1 + indent + 2;
    text[at - 2] = '-';
  }

  const CommentOf& comment_of_;
};

}  // namespace

std::string write_yaml(const Node& node, const CommentOf& comment_of) {
  Writer writer(comment_of);
  writer.block(node, 0, "");
  return std::move(writer.text);
}

Node empty_map(SourcePosition position) { return Node{std::move(position), Node::Map{}, false}; }

void set_entry(Node& map, std::string key, Node value) {
  Node::Map& entries = map.map();
  const auto found = std::find_if(entries.begin(), entries.end(), [&](const auto& entry) { return entry.key == key; });
  if (found != entries.end()) {
    found->value = std::move(value);
  } else {
    SourcePosition position = value.position;
    entries.push_back({std::move(key), std::move(position), std::move(value)});
  }
}

}  // namespace foretrain::config
