#include "sim/scenario/offers.h"

#include <algorithm>
#include <array>
#include <map>

#include "sim/config/quote.h"
#include "sim/config/reader.h"

namespace foretrain {
namespace {

using config::MapReader;
using config::Node;
using config::Unit;

constexpr std::size_t kMostOffers = 10'000;
constexpr std::array kStatuses = {Quote::Status::official, Quote::Status::market, Quote::Status::estimate,
                                  Quote::Status::historic, Quote::Status::spot};

Quote read_quote(MapReader& reader, const Quote& defaults) {
  Quote quote = defaults;
  std::vector<std::string> names;
  for (const Quote::Status status : kStatuses) names.emplace_back(to_string(status));
  if (const auto status = reader.choice("status", names)) quote.status = kStatuses[*status];
  quote.date = reader.text("date").value_or(quote.date);
  quote.source = reader.text("source").value_or(quote.source);
  quote.note = reader.text("note").value_or(quote.note);
  return quote;
}

void check_quote(MapReader& reader, const Quote& quote) {
  if (quote.date.empty()) reader.error("date", message("date is missing; prices move, say of when this one is"));
  if (quote.source.empty()) reader.error("source", message("source is missing; say where the price was read"));
}

std::optional<Band> read_band(MapReader& reader, std::string_view key, config::Range range) {
  const auto amounts = reader.number_list(key, Unit::count, range);
  if (!amounts) return std::nullopt;
  if (amounts->size() == 1) return Band(amounts->front());
  if (amounts->size() == 2 && amounts->front() <= amounts->back()) return Band(amounts->front(), amounts->back());
  reader.error(key, message("{} must be an amount or [LOW, HIGH]", key));
  return std::nullopt;
}

std::optional<BytesPerSecond> read_line(MapReader& reader) {
  const auto rate = reader.number("network", Unit::network_rate, {1e3, 1e13});
  return rate ? std::optional(BytesPerSecond{*rate}) : std::nullopt;
}

std::vector<AddOn> read_add_ons(const Node* node, Diagnostics& diagnostics) {
  std::vector<AddOn> all;
  if (present(node) == nullptr) return all;
  if (!node->is_map()) {
    diagnostics.error(node->position, message("add_ons must be a map of names, each with an amount"));
    return all;
  }
  for (const Node::Entry& entry : node->map()) {
    MapReader reader(entry.value, diagnostics, "add_ons." + entry.key);
    AddOn add_on;
    add_on.name = entry.key;
    const auto amount = read_band(reader, "amount", {-kHighestPrice, kHighestPrice});
    if (!amount && !reader.has("amount")) {
      reader.error("amount",
                   message("add_ons.{}.amount is missing; in the currency and period of the price", entry.key));
    }
    add_on.amount = amount.value_or(Band{});
    if (const Node* machine = reader.node("machine"); machine != nullptr && machine->is_map()) {
      add_on.machine = *machine;
    } else if (present(machine) != nullptr) {
      reader.error("machine", message("add_ons.{}.machine must be a map of what it changes", entry.key));
    }
    add_on.network = read_line(reader);
    reader.finish();
    all.push_back(std::move(add_on));
  }
  return all;
}

Node read_machine(MapReader& reader, Diagnostics& diagnostics) {
  const Node* machine = reader.node("machine");
  if (machine == nullptr || !machine->is_map() || machine->map().empty()) {
    reader.error(
        "machine",
        message("machine is missing; a map such as {{gpu: a100-pcie-40gb, gpus: 1}} or {{node: dgx-a100-80g}}"));
    return {};
  }
  for (const char* counted : {"nodes", "gpus_per_node"}) {
    if (const Node* written = machine->find(counted)) {
      diagnostics.error(written->position, message("machine.{} cannot be said: an offer is of one machine; write "
                                                   "gpus for its GPUs",
                                                   counted));
    }
  }
  if (machine->find("node") == nullptr && machine->find("gpus") == nullptr) {
    reader.error("machine", message("machine.gpus is missing: how many GPUs the price is for"));
  }
  return *machine;
}

std::optional<Price> read_offer_price(MapReader& reader, const std::string& currency, Diagnostics& diagnostics) {
  const Node* node = reader.node("price");
  if (present(node) == nullptr) {
    reader.error("price", message("price is missing; for instance 2800CNY/month or {{per_hour: 1.99, currency: USD}}"));
    return std::nullopt;
  }
  std::optional<Price> price = read_price(*node, diagnostics, {.amount = {}, .currency = currency});
  if (!price) return std::nullopt;
  const bool says = node->is_map() && node->find("whole_periods") != nullptr;
  // Machines by the month or year are let for whole ones.
  if (!says) price->whole_periods = price->per != Price::Per::hour;
  if (price->currency.empty()) {
    diagnostics.error(node->position, message("the price has no currency; write one with it or for the whole file"));
    return std::nullopt;
  }
  return price;
}

// Calls read(item) for each map of a list.
template <class Read>
void for_each_of(const Node* list, const char* what, Diagnostics& diagnostics, const Read& read) {
  if (present(list) == nullptr) return;
  if (!list->is_sequence() || list->sequence().size() > kMostOffers) {
    diagnostics.error(list->position, message("{} must be a list of at most {} maps", what, kMostOffers));
    return;
  }
  for (const Node& item : list->sequence()) read(item);
}

void check_names(const std::vector<Offer>& offers, Diagnostics& diagnostics) {
  std::map<std::string, SourcePosition> seen;
  for (const Offer& offer : offers) {
    const auto [first, is_new] = seen.emplace(offer.name, offer.position);
    if (is_new) continue;
    diagnostics.error(offer.position, message("a second offer is called {}, the first is in line {}; rename one",
                                              config::in_quotes(offer.name), first->second.line));
  }
}

}  // namespace

const char* to_string(Quote::Status status) {
  switch (status) {
    case Quote::Status::official:
      return "official";
    case Quote::Status::market:
      return "market";
    case Quote::Status::estimate:
      return "estimate";
    case Quote::Status::historic:
      return "historic";
    case Quote::Status::spot:
      return "spot";
  }
  return "";
}

Offer Offer::with(const std::vector<std::string>& names) const {
  Offer result = *this;
  for (const AddOn& add_on : add_ons) {
    if (std::find(names.begin(), names.end(), add_on.name) == names.end()) continue;
    result.taken.push_back(add_on.name);
    const Band sum = result.price.amount + add_on.amount;
    result.price.amount = {std::max(sum.low, 0.0), std::max(sum.high, 0.0)};
    if (add_on.machine.is_map()) result.machine = merge(result.machine, add_on.machine);
    if (add_on.network) result.network = add_on.network;
  }
  return result;
}

std::optional<Offer> read_offer(const Node& node, const std::string& prefix, const std::string& currency,
                                const Quote& quote, Diagnostics& diagnostics) {
  const int errors_before = diagnostics.error_count();
  MapReader reader(node, diagnostics, "offer");
  Offer offer;
  offer.position = node.position;
  offer.name = prefix + reader.required_text("name");
  offer.provider = reader.text("provider").value_or("");
  offer.machine = read_machine(reader, diagnostics);
  offer.up_to_gpus = static_cast<int>(reader.integer("up_to_gpus", {1, 1024}).value_or(0));
  if (const auto price = read_offer_price(reader, currency, diagnostics)) offer.price = *price;
  offer.quote = read_quote(reader, quote);
  check_quote(reader, offer.quote);
  offer.network = read_line(reader);
  if (const auto every = reader.number("interrupted_every", Unit::seconds, {1, 1e12})) {
    offer.interrupted_every_hours = *every / 3600.0;
  }
  offer.add_ons = read_add_ons(reader.node("add_ons"), diagnostics);
  reader.finish();
  if (diagnostics.error_count() > errors_before) return std::nullopt;
  return offer;
}

std::optional<Purchase> read_purchase(const Node& node, const std::string& prefix, const std::string& currency,
                                      const Quote& defaults, const DataFolder& data, Diagnostics& diagnostics) {
  const int errors_before = diagnostics.error_count();
  MapReader reader(node, diagnostics, "purchase");
  Purchase purchase;
  purchase.name = prefix + reader.required_text("name");
  const std::string gpu = reader.required_text("gpu");
  if (!gpu.empty()) {
    if (const auto known = load_gpu(data, gpu, reader.position_of("gpu"), diagnostics)) purchase.gpu = known->name;
  }
  purchase.gpus = static_cast<int>(reader.integer("gpus", {1, 1e6}).value_or(1));
  const auto cost = read_band(reader, "cost", {0, kHighestPrice});
  if (!cost && !reader.has("cost")) reader.error("cost", message("purchase.cost is missing; an amount or [LOW, HIGH]"));
  purchase.cost = cost.value_or(Band{});
  purchase.currency = reader.text("currency").value_or(currency);
  if (purchase.currency.empty()) reader.error("currency", message("purchase.currency is missing"));
  purchase.watts = reader.number("power", Unit::watts, {0, 1e9});
  purchase.quote = read_quote(reader, defaults);
  check_quote(reader, purchase.quote);
  reader.finish();
  if (diagnostics.error_count() > errors_before) return std::nullopt;
  return purchase;
}

std::optional<OfferFile> read_offers(const Node& root, const std::string& prefix, const DataFolder& data,
                                     Diagnostics& diagnostics) {
  const int errors_before = diagnostics.error_count();
  MapReader reader(root, diagnostics, "");
  for (const char* of_the_catalogue : {"name", "aliases", "description"}) reader.node(of_the_catalogue);
  const std::string currency = reader.text("currency").value_or("");
  const Quote quote = read_quote(reader, {});
  OfferFile file;
  for_each_of(reader.node("offers"), "offers", diagnostics, [&](const Node& item) {
    if (auto offer = read_offer(item, prefix, currency, quote, diagnostics)) file.offers.push_back(std::move(*offer));
  });
  for_each_of(reader.node("purchases"), "purchases", diagnostics, [&](const Node& item) {
    auto purchase = read_purchase(item, prefix, currency, quote, data, diagnostics);
    if (purchase) file.purchases.push_back(std::move(*purchase));
  });
  file.exchange = read_exchange(reader.node("exchange"), diagnostics);
  reader.finish();
  check_names(file.offers, diagnostics);
  if (root.is_map() && !reader.has("offers") && !reader.has("purchases")) {
    diagnostics.error(root.position, message("there are neither offers nor purchases in this file"));
  }
  if (diagnostics.error_count() > errors_before) return std::nullopt;
  return file;
}

std::vector<ExchangeRate> read_exchange(const Node* node, Diagnostics& diagnostics) {
  std::vector<ExchangeRate> rates;
  for_each_of(node, "exchange", diagnostics, [&](const Node& item) {
    MapReader reader(item, diagnostics, "exchange");
    ExchangeRate rate;
    rate.from = reader.required_text("from");
    rate.to = reader.required_text("to");
    rate.rate = reader.required_number("rate", Unit::count, {1e-9, 1e9});
    rate.date = reader.required_text("date");
    rate.source = reader.required_text("source");
    reader.finish();
    rates.push_back(std::move(rate));
  });
  return rates;
}

std::optional<double> exchange_rate(const std::string& from, const std::string& to,
                                    const std::vector<ExchangeRate>& rates) {
  if (from == to) return 1.0;
  for (const ExchangeRate& rate : rates) {
    if (rate.from == from && rate.to == to) return rate.rate;
    if (rate.from == to && rate.to == from) return 1.0 / rate.rate;
  }
  return std::nullopt;
}

}  // namespace foretrain
