#include "sim/config/catalogue.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "sim/config/quote.h"

namespace foretrain::config {
namespace {

// "1 model", "3 models": a pattern of its own for every kind of thing.
Message counted(const std::string& what, std::size_t count) {
  const bool plural = count != 1 && !what.ends_with('s');
  return {fmt::format("{{}} {}{}", what, plural ? "s" : ""), {Message(fmt::format("{}", count))}};
}

// The texts of `aliases:`, in catalogue spelling; what is not text is reported.
std::vector<std::string> read_aliases(const Node& node, Diagnostics& diagnostics) {
  const Node* listed = node.find("aliases");
  std::vector<std::string> aliases;
  if (present(listed) == nullptr) return aliases;
  const auto take = [&](const Node& item) {
    if (item.is_scalar()) {
      aliases.push_back(Catalogue::normalised(item.scalar()));
    } else {
      diagnostics.error(item.position, message("aliases must be a list of names"));
    }
  };
  if (listed->is_sequence()) {
    std::for_each(listed->sequence().begin(), listed->sequence().end(), take);
  } else {
    take(*listed);
  }
  return aliases;
}

}  // namespace

std::string Catalogue::normalised(std::string_view name) {
  std::string result(name);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (c == '_' || c == ' ') c = '-';
  }
  return result;
}

Catalogue::Catalogue(std::string folder, std::string what) : folder_(std::move(folder)), what_(std::move(what)) {
  std::error_code error;
  std::vector<Item> items;
  for (auto entry = std::filesystem::directory_iterator(folder_, error);
       !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const std::filesystem::path& path = entry->path();
    const std::string extension = path.extension().string();
    if (extension != ".yaml" && extension != ".yml") continue;
    std::error_code unreadable;
    if (path.filename().string().starts_with('.') || !entry->is_regular_file(unreadable)) continue;
    items.push_back({normalised(path.stem().string()), path.string(), nullptr});
  }
  std::sort(items.begin(), items.end(),
            [](const Item& a, const Item& b) { return std::tie(a.name, a.path) < std::tie(b.name, b.path); });
  items_ = std::move(items);
  for (const Item& item : items_) {
    if (names_.empty() || names_.back() != item.name) names_.push_back(item.name);
  }
}

const Catalogue::Parsed& Catalogue::parsed(const Item& item) const {
  if (!item.parsed) {
    auto result = std::make_shared<Parsed>();
    if (std::optional<Node> node = parse_yaml_file(item.path, result->diagnostics)) {
      result->aliases = read_aliases(*node, result->diagnostics);
      result->node = std::make_shared<const Node>(std::move(*node));
    }
    item.parsed = std::move(result);
  }
  return *item.parsed;
}

std::optional<Catalogue::Found> Catalogue::take(const Item& item, Diagnostics& diagnostics) const {
  const Parsed& read = parsed(item);
  diagnostics.append(read.diagnostics);
  if (!read.node) return std::nullopt;
  return Found{item.name, read.node};
}

std::optional<Catalogue::Found> Catalogue::find(std::string_view name, SourcePosition asked_at,
                                                Diagnostics& diagnostics) const {
  const std::string wanted = normalised(name);
  const auto [first, last] = std::equal_range(items_.begin(), items_.end(), wanted, ByName{});
  if (last - first == 1) return take(*first, diagnostics);
  if (last - first > 1) {
    diagnostics.error(asked_at, message("{} {} is in two files, {} and {}; rename one", quoted_words(what_),
                                        in_quotes(name), in_quotes(first->path), in_quotes(std::next(first)->path)));
    return std::nullopt;
  }

  std::vector<const Item*> called;
  for (const Item& item : items_) {
    const std::vector<std::string>& aliases = parsed(item).aliases;
    if (std::find(aliases.begin(), aliases.end(), wanted) != aliases.end()) called.push_back(&item);
  }
  if (called.size() == 1) return take(*called.front(), diagnostics);
  if (called.size() > 1) {
    diagnostics.error(asked_at, message("{} {} is another name of both '{}' and '{}'; write one of them",
                                        quoted_words(what_), in_quotes(name), called[0]->name, called[1]->name));
    return std::nullopt;
  }
  report_unknown(name, wanted, std::move(asked_at), diagnostics);
  return std::nullopt;
}

void Catalogue::report_unknown(std::string_view name, const std::string& wanted, SourcePosition asked_at,
                               Diagnostics& diagnostics) const {
  std::vector<std::string> candidates = names_;
  for (const Item& item : items_) {
    const Parsed& read = parsed(item);
    candidates.insert(candidates.end(), read.aliases.begin(), read.aliases.end());
  }
  std::sort(candidates.begin(), candidates.end());
  candidates.erase(std::unique(candidates.begin(), candidates.end()), candidates.end());
  Message hint = did_you_mean(wanted, candidates);
  if (hint.empty()) {
    const Message all = counted(what_, names_.size());
    hint = names_.empty()       ? message("; there are none in {}", in_quotes(folder_))
           : names_.size() == 1 ? message("; there is {}, see 'foretrain catalog'", all)
                                : message("; there are {}, see 'foretrain catalog'", all);
  }
  diagnostics.error(std::move(asked_at), message("unknown {} {}{}", quoted_words(what_), in_quotes(name), hint));
  // The name may be one that a file which cannot be read would have given.
  for (const Item& item : items_) diagnostics.append(parsed(item).diagnostics);
}

}  // namespace foretrain::config
