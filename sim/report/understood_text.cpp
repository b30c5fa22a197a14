#include "sim/report/understood_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "sim/report/describe.h"

namespace foretrain::report {
namespace {

std::vector<Described> parts_of(const Case& c, Plans plans) {
  std::vector<Described> parts = describe(c);
  if (plans == Plans::looked_for) std::erase_if(parts, [](const Described& part) { return part.is_plan; });
  return parts;
}

}  // namespace

std::string understood(const std::vector<const Case*>& cases, Plans plans, const Terminal& terminal) {
  const Words& words = terminal.words;
  std::vector<std::vector<std::string>> all;  // of each case, each part of its description
  for (const Case* c : cases) {
    all.emplace_back();
    for (const Described& part : parts_of(*c, plans)) all.back().push_back(words(part.description));
  }
  if (all.empty()) return "";
  const auto shared = [&](std::size_t part) {
    return std::all_of(all.begin(), all.end(), [&](const auto& texts) { return texts[part] == all[0][part]; });
  };
  std::string text = styled(words("as understood"), Style::faint, terminal) + "\n";
  const std::vector<Described> parts = parts_of(*cases.front(), plans);
  for (std::size_t part = 0; part < parts.size(); ++part) {
    if (!shared(part)) continue;
    text += wrapped("  " + words("{}: {}", parts[part].what, all[0][part]), terminal.width, 4) + "\n";
  }
  for (std::size_t c = 0; c < all.size(); ++c) {
    std::string own;
    for (std::size_t part = 0; part < all[c].size(); ++part) {
      if (!shared(part)) own += (own.empty() ? "" : words("; ")) + all[c][part];
    }
    if (!own.empty()) {
      text += wrapped("  " + printable(words("{}: {}", cases[c]->name, own)), terminal.width, 4) + "\n";
    }
  }
  return text;
}

std::string sentences(const Message& title, const std::vector<Said>& all, const Terminal& terminal) {
  std::vector<std::pair<std::string, std::vector<std::string>>> said;
  std::map<std::string, std::size_t> index;
  for (const Said& about : all) {
    for (const Message& message : about.sentences) {
      const std::string sentence = terminal.words(message);
      const auto [at, is_new] = index.emplace(sentence, said.size());
      if (is_new) said.push_back({sentence, {}});
      std::vector<std::string>& names = said[at->second].second;
      if (names.empty() || names.back() != about.of) names.push_back(about.of);
    }
  }
  std::string text;
  for (const auto& [sentence, names] : said) {
    const std::string about = names.size() == all.size() ? "" : fmt::format(" ({})", fmt::join(names, ", "));
    text += wrapped("  " + printable(sentence + about), terminal.width, 4) + "\n";
  }
  return text.empty() ? "" : styled(terminal.words(title), Style::faint, terminal) + "\n" + text;
}

std::string assumed(const std::vector<const Case*>& cases, const Terminal& terminal) {
  std::vector<Said> all;
  for (const Case* c : cases) all.push_back({c->name, c->assumptions});
  return sentences(message("assumed"), all, terminal);
}

std::string as_understood(const std::vector<const Case*>& cases, Plans plans, const Terminal& terminal) {
  std::string text;
  for (const std::string& section : {understood(cases, plans, terminal), assumed(cases, terminal)}) {
    if (!section.empty()) text += "\n" + section;
  }
  return text;
}

}  // namespace foretrain::report
