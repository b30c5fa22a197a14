#include "sim/report/catalogue_text.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "sim/report/json_support.h"

namespace foretrain::report {
namespace {

template <class Number>
bool read_whole(const std::string& text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

Json scalar(const config::Node& node) {
  const std::string& text = node.scalar();
  if (node.quoted) return text;
  if (text == "true" || text == "false") return text == "true";
  std::int64_t whole = 0;
  if (read_whole(text, whole)) return whole;
  double number = 0;
  if (read_whole(text, number) && std::isfinite(number)) return number;
  return text;
}

Json to_json(const config::Node& node) {
  if (node.is_null()) return nullptr;
  if (node.is_scalar()) return scalar(node);
  if (node.is_sequence()) {
    Json list = Json::array();
    for (const config::Node& item : node.sequence()) list.push_back(to_json(item));
    return list;
  }
  Json map = Json::object();
  for (const config::Node::Entry& entry : node.map()) map[entry.key] = to_json(entry.value);
  return map;
}

}  // namespace

std::string catalogue_table(const std::string& kind, const std::vector<CatalogueEntry>& entries,
                            const Terminal& terminal) {
  const Words& words = terminal.words;
  std::string text;
  for (const CatalogueEntry& entry : entries) {
    text += styled(printable(entry.name), Style::bold, terminal);
    text += entry.summary.empty() ? "\n" : wrapped(": " + words(entry.summary), terminal.width, 4) + "\n";
    if (entry.aliases.empty()) continue;
    const std::string also = wrapped("    " + words("also {}", fmt::join(entry.aliases, ", ")), terminal.width, 4);
    text += styled(also, Style::faint, terminal) + "\n";
  }
  return text + "\n" + words("{} {}; 'foretrain catalog {} NAME' shows one", entries.size(), words.term(kind), kind) +
         "\n";
}

std::string catalogue_json(const std::string& kind, const std::vector<CatalogueEntry>& entries) {
  Json list = Json::array();
  for (const CatalogueEntry& entry : entries) {
    list.push_back({{"name", entry.name}, {"summary", entry.summary.english()}, {"aliases", entry.aliases}});
  }
  return dumped(Json{{kind, std::move(list)}});
}

std::string node_json(const config::Node& node) { return dumped(to_json(node)); }

}  // namespace foretrain::report
