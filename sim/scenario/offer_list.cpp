#include "sim/scenario/offer_list.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "sim/config/catalogue.h"
#include "sim/config/quote.h"

namespace foretrain {
namespace {

using config::Node;

// Reads every file once, and picks what a list names.
class Shelf {
 public:
  Shelf(const OfferPlaces& places, Diagnostics& diagnostics)
      : places_(places), diagnostics_(diagnostics), catalogue_(places.data.path + "/configs/offers", "offer file") {}

  OfferFile everything() {
    OfferFile all;
    for (const std::string& name : catalogue_.names()) take(catalogue_file(name, {}), "", {}, all);
    std::erase_if(all.offers, [](const Offer& o) { return o.quote.status == Quote::Status::historic; });
    return all;
  }

  void take_named(const Node& item, OfferFile& into) {
    const std::string& text = item.scalar();
    if (text.ends_with(".yaml") || text.ends_with(".yml")) {
      take(own_file(text), "", item.position, into);
      return;
    }
    const std::size_t slash = std::min(text.find('/'), text.size());
    const std::string name = slash < text.size() ? text.substr(slash + 1) : "";
    take(catalogue_file(text.substr(0, slash), item.position), name, item.position, into);
  }

 private:
  struct Shelved {
    std::string prefix;
    OfferFile file;
  };

  const Shelved* catalogue_file(const std::string& name, const SourcePosition& asked_at) {
    const auto found = catalogue_.find(name, asked_at, diagnostics_);
    return found ? shelve(found->name, *found->node) : nullptr;
  }

  const Shelved* own_file(const std::string& path) {
    const std::filesystem::path whole = std::filesystem::path(places_.folder) / path;
    if (const auto known = files_.find(whole.string()); known != files_.end()) return &known->second;
    const auto node = config::parse_yaml_file(whole.string(), diagnostics_);
    return node ? shelve(whole.string(), *node) : nullptr;
  }

  const Shelved* shelve(const std::string& key, const Node& node) {
    if (const auto known = files_.find(key); known != files_.end()) return &known->second;
    const std::string prefix = std::filesystem::path(key).stem().string() + "/";
    auto file = read_offers(node, prefix, places_.data, diagnostics_);
    if (!file) return nullptr;
    return &files_.emplace(key, Shelved{prefix, std::move(*file)}).first->second;
  }

  // All of a file, or what is called `name` in it.
  void take(const Shelved* shelved, const std::string& name, const SourcePosition& asked_at, OfferFile& into) {
    if (shelved == nullptr) return;
    const OfferFile& file = shelved->file;
    std::vector<std::string> known;
    bool found = name.empty();
    const auto pick = [&](const auto& from, auto& to) {
      for (const auto& item : from) {
        known.push_back(item.name.substr(shelved->prefix.size()));
        if (!name.empty() && known.back() != name) continue;
        found = true;
        to.push_back(item);
      }
    };
    pick(file.offers, into.offers);
    pick(file.purchases, into.purchases);
    into.exchange.insert(into.exchange.end(), file.exchange.begin(), file.exchange.end());
    if (found) return;
    diagnostics_.error(asked_at,
                       message("there is no offer {} in {}{}", config::in_quotes(name),
                               shelved->prefix.substr(0, shelved->prefix.size() - 1), did_you_mean(name, known)));
  }

  const OfferPlaces& places_;
  Diagnostics& diagnostics_;
  config::Catalogue catalogue_;
  std::map<std::string, Shelved> files_;
};

// What is written in the question itself needs no other source.
const Quote kOwnQuote{Quote::Status::official, "now", "the question", ""};

template <class ReadMap>
OfferFile gather(const Node* node, const OfferPlaces& places, Diagnostics& diagnostics, const ReadMap& read_map) {
  Shelf shelf(places, diagnostics);
  if (present(node) == nullptr) return shelf.everything();
  OfferFile all;
  const Node::Sequence alone{*node};
  for (const Node& item : node->is_sequence() ? node->sequence() : alone) {
    if (item.is_scalar()) {
      shelf.take_named(item, all);
    } else if (item.is_map()) {
      read_map(item, all);
    } else {
      diagnostics.error(item.position,
                        message("a name such as idc10000 or idc10000/t4, a path or a map should stand here"));
    }
  }
  return all;
}

// A later mention of the same offer adds nothing.
template <class Named>
void drop_repeats(std::vector<Named>& all) {
  std::vector<std::string> seen;
  std::erase_if(all, [&seen](const Named& item) {
    if (std::find(seen.begin(), seen.end(), item.name) != seen.end()) return true;
    seen.push_back(item.name);
    return false;
  });
}

}  // namespace

OfferFile gather_offers(const Node* node, const OfferPlaces& places, Diagnostics& diagnostics) {
  OfferFile all = gather(node, places, diagnostics, [&](const Node& item, OfferFile& into) {
    if (auto offer = read_offer(item, "", "", kOwnQuote, diagnostics)) into.offers.push_back(std::move(*offer));
  });
  drop_repeats(all.offers);
  return all;
}

std::vector<Purchase> gather_purchases(const Node* node, const OfferPlaces& places, Diagnostics& diagnostics) {
  OfferFile all = gather(node, places, diagnostics, [&](const Node& item, OfferFile& into) {
    auto purchase = read_purchase(item, "", "", kOwnQuote, places.data, diagnostics);
    if (purchase) into.purchases.push_back(std::move(*purchase));
  });
  drop_repeats(all.purchases);
  return std::move(all.purchases);
}

}  // namespace foretrain
