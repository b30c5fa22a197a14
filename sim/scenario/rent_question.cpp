#include "sim/scenario/rent_question.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "sim/config/quote.h"
#include "sim/config/reader.h"
#include "sim/config/write.h"
#include "sim/scenario/offer_list.h"
#include "sim/scenario/rent_candidates.h"

namespace foretrain {
namespace {

using config::MapReader;
using config::Node;
using config::Unit;

constexpr double kMostMoney = 1e15, kMostBytes = 1e18;
constexpr config::Range kDurations = {0, 1e12};

std::optional<double> hours(MapReader& reader, std::string_view key, config::Range range = kDurations) {
  const auto seconds = reader.number(key, Unit::seconds, range);
  return seconds ? std::optional(*seconds / 3600.0) : std::nullopt;
}

RentOverhead read_overhead(const Node* node, Diagnostics& diagnostics) {
  const Node nothing;
  MapReader reader(node == nullptr ? nothing : *node, diagnostics, "overhead");
  RentOverhead overhead;
  overhead.setup_hours = hours(reader, "setup").value_or(0.0);
  overhead.dataset = {reader.number("dataset", Unit::gigabytes, {0, kMostBytes}).value_or(0.0)};
  overhead.result = {reader.number("result", Unit::gigabytes, {0, kMostBytes}).value_or(0.0)};
  if (const auto rate = reader.number("network", Unit::network_rate, {1e3, 1e13})) overhead.network = {*rate};
  overhead.interrupted_every_hours = hours(reader, "interrupted_every", {1, 1e12});
  overhead.fails_every_hours = hours(reader, "fails_every", {1, 1e12});
  overhead.restart_hours = hours(reader, "restart").value_or(overhead.setup_hours);
  if (const Node* written = reader.node("checkpoint"); present(written) != nullptr) {
    MapReader checkpoint(*written, diagnostics, "overhead.checkpoint");
    if (const auto size = checkpoint.number("size", Unit::gigabytes, {0, kMostBytes})) overhead.checkpoint = {*size};
    if (const auto rate = checkpoint.number("rate", Unit::bytes_rate, {1e3, 1e15})) overhead.checkpoint_rate = {*rate};
    overhead.checkpoint_every_hours = hours(checkpoint, "every", {1, 1e12});
    checkpoint.finish();
  }
  reader.finish();
  return overhead;
}

Ownership read_ownership(const Node* node, Diagnostics& diagnostics) {
  const Node nothing;
  MapReader reader(node == nullptr ? nothing : *node, diagnostics, "ownership");
  Ownership ownership;
  ownership.power_price = reader.number("power_price", Unit::count, {0, 1e6}).value_or(0.0);
  ownership.power_factor = reader.number("power_factor", Unit::count, {1, 10}).value_or(1.0);
  ownership.upkeep_per_month = reader.number("upkeep_per_month", Unit::count, {0, kMostMoney}).value_or(0.0);
  ownership.residual = reader.number("residual", Unit::count, {0, 1}).value_or(0.0);
  reader.finish();
  return ownership;
}

// "2000CNY", or "2000" where the currency is said elsewhere.
void read_budget(const std::string& text, const SourcePosition& position, RentQuestion& question,
                 Diagnostics& diagnostics) {
  const std::size_t letters = text.find_last_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ") + 1;
  const std::string currency = text.substr(letters);
  Message why_not;
  const auto amount = config::parse_number(text.substr(0, letters), Unit::count, why_not);
  if (!amount || *amount < 0 || *amount > kMostMoney) {
    diagnostics.error(position, message("budget {} is not of the form 2000CNY", config::in_quotes(text)));
    return;
  }
  question.budget = *amount;
  if (currency.empty()) return;
  if (!question.currency.empty() && question.currency != currency) {
    diagnostics.error(
        position, message("the budget is in {} and the answer in {}; write one currency", currency, question.currency));
  }
  question.currency = currency;
}

void read_deadline(const std::string& text, const SourcePosition& position, RentQuestion& question,
                   Diagnostics& diagnostics) {
  Message why_not;
  const auto seconds = config::parse_number(text, Unit::seconds, why_not);
  if (seconds && *seconds > 0 && *seconds <= kDurations.max) {
    question.deadline_hours = *seconds / 3600.0;
  } else {
    diagnostics.error(position, message("deadline {} is not of the form 3d12h or 40h", config::in_quotes(text)));
  }
}

// The currency that all is said in, if nobody says it. Of the whole catalogue it is that of most offers.
void settle_currency(const SourcePosition& position, bool whole_catalogue, RentQuestion& question,
                     Diagnostics& diagnostics) {
  std::map<std::string, int> currencies;
  for (const Offer& offer : question.offers) ++currencies[offer.price.currency];
  if (!question.currency.empty() || currencies.empty()) return;
  const auto most = std::max_element(currencies.begin(), currencies.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  question.currency = most->first;
  if (currencies.size() > 1 && whole_catalogue) {
    question.assumptions.push_back(message("money is in {}, the currency of {} of {} offers", question.currency,
                                           most->second, question.offers.size()));
  } else if (currencies.size() > 1) {
    std::vector<std::string> names;
    for (const auto& [currency, offers] : currencies) names.push_back(currency);
    diagnostics.error(position, message("the offers are in {}; write rent.currency or a budget such as 2000{}, and "
                                        "rates in rent.exchange to compare them",
                                        fmt::join(names, " and "), question.currency));
  }
}

std::vector<int> read_counts(MapReader& reader) {
  std::vector<int> counts;
  for (const double value :
       reader.number_list("machines", Unit::count, {1, kMostRentedGpus}).value_or(std::vector<double>{})) {
    counts.push_back(static_cast<int>(value));
    if (counts.back() != value) reader.error("machines", message("rent.machines must be whole numbers"));
  }
  std::sort(counts.begin(), counts.end());
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  return counts;
}

void check_add_ons(const std::vector<std::string>& wanted, const RentQuestion& question, MapReader& reader) {
  std::vector<std::string> known;
  for (const Offer& offer : question.offers) {
    for (const AddOn& add_on : offer.add_ons) known.push_back(add_on.name);
  }
  for (const std::string& name : wanted) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    reader.error("with", message("no offer has the add-on {}{}", config::in_quotes(name), did_you_mean(name, known)));
  }
}

void check_network(const RentQuestion& question, MapReader& reader) {
  if (question.overhead.dataset.value + question.overhead.result.value == 0 || question.overhead.network) return;
  for (const Offer& offer : question.offers) {
    if (offer.network) continue;
    reader.error("overhead", message("overhead.network is missing: {} does not say how fast its line is", offer.name));
    return;
  }
}

// The job with a batch that is the same on all machines: some sequences for every GPU of a usual machine, and one at
// least for every GPU that is tried.
Node with_batch(const Node& base, const RentSizes& sizes, RentQuestion& question) {
  constexpr int kUsualBatch = 64;
  const Node* train = base.find("train");
  if (present(train) != nullptr && !train->is_map()) return base;  // is reported when it is read
  if (train != nullptr && is_written(*train, "global_batch")) return base;
  const int sequences = std::max(kUsualBatch, sizes.most_gpus);
  question.assumptions.push_back(message("train.global_batch is taken as {}, on all machines alike", sequences));
  const Node taken{base.position, fmt::format("{}", sequences)};
  const Node in_train{base.position, Node::Map{{"global_batch", base.position, taken}}};
  return merge(base, {base.position, Node::Map{{"train", base.position, in_train}}});
}

// Of a map only these keys.
Node picked(const Node& map, const std::vector<std::string>& keys) {
  Node some = config::empty_map(map.position);
  for (const std::string& key : keys) {
    if (const Node* value = map.find(key)) config::set_entry(some, key, *value);
  }
  return some;
}

// All of the `rent` section, and what it makes of `base`.
void read_rent(const Node& node, const Node& base, const OfferPlaces& places, const RentOverrides& overrides,
               RentQuestion& question, Diagnostics& diagnostics) {
  MapReader reader(node, diagnostics, "rent");
  const std::string currency = reader.text("currency").value_or("");
  question.currency = overrides.currency.empty() ? currency : overrides.currency;
  const auto deadline = reader.text("deadline"), budget = reader.text("budget");
  if (!overrides.deadline.empty()) {
    read_deadline(overrides.deadline, {}, question, diagnostics);
  } else if (deadline) {
    read_deadline(*deadline, reader.position_of("deadline"), question, diagnostics);
  }
  if (!overrides.budget.empty()) {
    read_budget(overrides.budget, {}, question, diagnostics);
  } else if (budget) {
    read_budget(*budget, reader.position_of("budget"), question, diagnostics);
  }
  question.overhead = read_overhead(reader.node("overhead"), diagnostics);
  question.ownership = read_ownership(reader.node("ownership"), diagnostics);
  question.exchange = read_exchange(reader.node("exchange"), diagnostics);

  Node::Sequence named;
  for (const std::string& name : overrides.offers) named.push_back({{}, name});
  const Node from_command_line{{}, std::move(named)};
  const Node* offers = reader.node("offers");
  const bool overridden = !overrides.offers.empty();
  OfferFile gathered = gather_offers(overridden ? &from_command_line : offers,
                                     overridden ? OfferPlaces{places.data, ""} : places, diagnostics);
  question.offers = std::move(gathered.offers);
  question.purchases = std::move(gathered.purchases);
  question.exchange.insert(question.exchange.end(), gathered.exchange.begin(), gathered.exchange.end());
  if (const Node* buy = reader.node("buy"); present(buy) != nullptr) {
    question.purchases = gather_purchases(buy, places, diagnostics);
  }
  const auto wanted = reader.text_list("with").value_or(std::vector<std::string>{});
  check_add_ons(wanted, question, reader);
  for (Offer& offer : question.offers) offer = offer.with(wanted);

  const RentSizes sizes{read_counts(reader),
                        static_cast<int>(reader.integer("max_gpus", {1, kMostRentedGpus}).value_or(64))};
  check_network(question, reader);
  reader.finish();
  if (diagnostics.has_errors()) return;
  settle_currency(node.position, !overridden && offers == nullptr, question, diagnostics);
  if (diagnostics.has_errors()) return;
  list_candidates(question, with_batch(base, sizes, question), sizes, places.data,
                  offers != nullptr ? offers->position : node.position, diagnostics);
}

}  // namespace

std::optional<RentQuestion> read_rent_question(const Node& root, const std::string& folder, const DataFolder& data,
                                               Diagnostics& diagnostics, const RentOverrides& overrides) {
  Diagnostics said;
  MapReader reader(root, said, "");
  RentQuestion question;
  question.title = reader.text("title").value_or("");
  reader.choice("ask", {"rent"});
  const Node *base = reader.node("base"), *rent = reader.node("rent");
  reader.finish();
  if (base == nullptr || !base->is_map()) {
    said.error(root.position,
               message("base is missing: a map of the model, how it is trained, and what is fixed of the plan"));
  } else if (const Node* cluster = base->find("cluster")) {
    said.error(cluster->position, message("base cannot have a cluster: the machines come from the offers"));
  }
  const Node nothing{root.position, Node::Map{}};
  if (!said.has_errors()) {
    read_rent(rent == nullptr ? nothing : *rent, *base, {data, folder}, overrides, question, said);
  }
  if (!said.has_errors() && question.cases.front().train.tokens <= 0) {
    said.error(base->position, message("how much is to be trained? write train.tokens, or train.samples and epochs"));
  }
  diagnostics.append(said);
  if (said.has_errors()) return std::nullopt;
  return question;
}

std::optional<RentQuestion> load_rent_question(const std::string& path, const DataFolder& data,
                                               Diagnostics& diagnostics, const RentOverrides& overrides) {
  const auto root = config::parse_yaml_file(path, diagnostics);
  if (!root) return std::nullopt;
  return read_rent_question(*root, std::filesystem::path(path).parent_path().string(), data, diagnostics, overrides);
}

std::optional<RentQuestion> question_of_job(const Node& described, const std::string& tokens, const DataFolder& data,
                                            const RentOverrides& overrides, Diagnostics& diagnostics) {
  constexpr const char* kUsualTokens = "1e9";
  Node job = picked(described, {"model", "train", "software", "software_version"});
  if (const Node* plan = described.find("plan"); plan != nullptr && plan->is_map()) {
    config::set_entry(job, "plan", picked(*plan, {"offload", "order"}));
  }
  const Node* train = job.find("train");
  const auto says = [train](std::string_view key) { return train != nullptr && is_written(*train, key); };
  const bool assumed = tokens.empty() && !says("tokens") && !says("samples");
  if (assumed || !tokens.empty()) {
    Node in_train = train != nullptr && train->is_map() ? *train : config::empty_map(described.position);
    std::erase_if(in_train.map(), [](const Node::Entry& e) { return e.key == "samples" || e.key == "epochs"; });
    config::set_entry(in_train, "tokens", Node{described.position, assumed ? kUsualTokens : tokens});
    if (present(train) == nullptr || train->is_map()) config::set_entry(job, "train", std::move(in_train));
  }
  Node root = config::empty_map(described.position);
  config::set_entry(root, "base", std::move(job));
  auto question = read_rent_question(root, "", data, diagnostics, overrides);
  if (question && assumed) {
    question->assumptions.push_back(message("train.tokens is taken as {}; --tokens says how many", kUsualTokens));
  }
  return question;
}

}  // namespace foretrain
