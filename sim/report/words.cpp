#include "sim/report/words.h"

#include <algorithm>

#include "sim/config/quote.h"
#include "sim/config/tree.h"

namespace foretrain::report {
namespace {

// `{}` and `{0}` are places; doubled braces are text.
std::size_t places(std::string_view pattern) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '{') continue;
    if (i + 1 < pattern.size() && pattern[i + 1] == '{') {
      ++i;
    } else {
      ++count;
    }
  }
  return count;
}

// Whether the pattern takes so many texts, each exactly once.
bool takes(const std::string& pattern, std::size_t count) {
  if (places(pattern) != count) return false;
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < count; ++i) texts.push_back("\x01" + std::to_string(i) + "\x02");
  try {
    const std::string all = filled(pattern, texts);
    return std::all_of(texts.begin(), texts.end(), [&](const auto& text) { return all.find(text) != all.npos; });
  } catch (const fmt::format_error&) {
    return false;
  }
}

// Adds the entries of a file that the catalogue lacks.
void read(const std::string& path, std::map<std::string, std::string, std::less<>>& catalogue,
          Diagnostics& diagnostics) {
  const auto document = config::parse_yaml_file(path, diagnostics);
  if (!document) return;
  if (!document->is_map()) {
    return diagnostics.error(document->position,
                             message("a catalogue is a map of English patterns to translated ones"));
  }
  for (const config::Node::Entry& entry : document->map()) {
    if (!entry.value.is_scalar()) {
      diagnostics.error(entry.value.position, message("a translation is text"));
    } else if (!takes(entry.value.scalar(), places(entry.key))) {
      diagnostics.error(
          entry.value.position,
          message("the translation of {} has other places than it; each {{}} once, or {{0}}, {{1}} ... in any order",
                  config::in_quotes(entry.key)));
    } else {
      catalogue.emplace(entry.key, entry.value.scalar());
    }
  }
}

}  // namespace

std::optional<Words> Words::load(const std::vector<std::string>& paths, Diagnostics& diagnostics) {
  auto catalogue = std::make_shared<Catalogue>();
  const int errors = diagnostics.error_count();
  for (const std::string& path : paths) read(path, *catalogue, diagnostics);
  if (diagnostics.error_count() > errors) return std::nullopt;
  Words words;
  words.catalogue_ = std::move(catalogue);
  return words;
}

const std::string& Words::translated(const std::string& pattern) const {
  if (!catalogue_) return pattern;
  const auto found = catalogue_->find(pattern);
  return found == catalogue_->end() ? pattern : found->second;
}

std::string Words::operator()(const Message& message) const {
  if (message.is_name()) return message.pattern();
  std::vector<std::string> texts;
  for (const Message& argument : message.arguments()) texts.push_back((*this)(argument));
  return filled(translated(message.pattern()), texts);
}

std::string Words::term(std::string_view name) const {
  std::string spoken(name);
  std::replace(spoken.begin(), spoken.end(), '_', ' ');
  return translated(spoken);
}

}  // namespace foretrain::report
