#include "sim/scenario/price.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "sim/config/quote.h"
#include "sim/config/reader.h"

namespace foretrain {
namespace {

using config::MapReader;
using config::Node;

constexpr double kLongestTerm = 100.0 * kHoursPerYear;

struct NamedSpan {
  std::string_view name;
  double hours;
};
constexpr std::array<NamedSpan, 6> kSpans = {{{"hour", 1.0},
                                              {"day", 24.0},
                                              {"week", 168.0},
                                              {"month", kHoursPerMonth},
                                              {"quarter", 3.0 * kHoursPerMonth},
                                              {"year", kHoursPerYear}}};

struct NamedPeriod {
  std::string_view name;
  Price::Per per;
};
constexpr std::array<NamedPeriod, 4> kPeriods = {
    {{"hour", Price::Per::hour}, {"h", Price::Per::hour}, {"month", Price::Per::month}, {"year", Price::Per::year}}};

// Periods to pay for so many hours, where the first of `terms` is the longest.
double paid_periods(double hours, double period, bool whole, std::span<const Price::Term> terms) {
  if (terms.empty()) return whole ? std::ceil(hours / period) : hours / period;
  const Price::Term& longest = terms.front();
  const double of_term = longest.hours / period * longest.factor, fitting = std::floor(hours / longest.hours);
  const double rest = paid_periods(hours - fitting * longest.hours, period, whole, terms.subspan(1));
  return fitting * of_term + std::min(of_term, rest);
}

// "2800CNY/month", "9.5USD/hour", "9.5/h": an amount, a currency, and what it is for.
std::optional<Price> parse_price(const Node& node, Diagnostics& diagnostics, Price price) {
  const std::string& text = node.scalar();
  const std::size_t slash = std::min(text.find('/'), text.size());
  const std::size_t letters = std::min(text.find_last_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ", slash - 1) + 1, slash);
  const std::string period = text.substr(std::min(slash + 1, text.size()));
  const auto per =
      std::find_if(kPeriods.begin(), kPeriods.end(), [&](const NamedPeriod& p) { return p.name == period; });
  Message why_not;
  const std::optional<double> amount = config::parse_number(text.substr(0, letters), config::Unit::count, why_not);
  if (!amount || *amount < 0 || *amount > kHighestPrice || per == kPeriods.end()) {
    diagnostics.error(node.position,
                      message("price {} is not of the form 2800CNY/month or 9.5USD/hour", config::in_quotes(text)));
    return std::nullopt;
  }
  price.amount = *amount;
  if (letters < slash) price.currency = text.substr(letters, slash - letters);
  price.per = per->per;
  return price;
}

std::optional<Band> read_amount(MapReader& reader, std::string_view key) {
  const auto amounts = reader.number_list(key, config::Unit::count, {0, kHighestPrice});
  if (!amounts) return std::nullopt;
  if (amounts->size() == 1) return Band(amounts->front());
  if (amounts->size() == 2 && amounts->front() <= amounts->back()) return Band(amounts->front(), amounts->back());
  reader.error(key, message("price.{} must be an amount or [LOW, HIGH]", key));
  return std::nullopt;
}

void read_terms(const Node* node, Price& price, Diagnostics& diagnostics) {
  if (present(node) == nullptr) return;
  if (!node->is_map()) {
    diagnostics.error(node->position, message("price.terms must be a map such as {{quarter: 0.95, year: 0.8}}"));
    return;
  }
  for (const Node::Entry& entry : node->map()) {
    const std::optional<double> hours = parse_term(entry.key);
    Message why_not;
    const std::optional<double> factor = entry.value.is_scalar()
                                             ? config::parse_number(entry.value.scalar(), config::Unit::count, why_not)
                                             : std::nullopt;
    if (!hours) {
      diagnostics.error(entry.key_position, message("price.terms: {} is no term; right would be month, quarter, "
                                                    "year, 6 months or 30d",
                                                    config::in_quotes(entry.key)));
    } else if (!factor || *factor <= 0 || *factor > 1) {
      diagnostics.error(entry.value.position, message("price.terms: the factor of {} must be above 0 and at most 1",
                                                      config::in_quotes(entry.key)));
    } else {
      price.terms.push_back({*hours, *factor});
    }
  }
  std::sort(price.terms.begin(), price.terms.end(), [](const auto& a, const auto& b) { return a.hours > b.hours; });
}

}  // namespace

const char* to_string(Price::Per per) {
  switch (per) {
    case Price::Per::hour:
      return "hour";
    case Price::Per::month:
      return "month";
    case Price::Per::year:
      return "year";
  }
  return "";
}

double Price::period_hours() const {
  switch (per) {
    case Per::hour:
      return 1.0;
    case Per::month:
      return kHoursPerMonth;
    case Per::year:
      return kHoursPerYear;
  }
  return 1.0;
}

Band Price::cost(double hours) const {
  return amount * paid_periods(std::max(hours, minimum_hours), period_hours(), whole_periods, terms);
}

std::optional<double> parse_term(std::string_view text) {
  const std::size_t letters = std::min(text.find_first_not_of("0123456789. "), text.size());
  std::string_view word = text.substr(letters), figure = text.substr(0, letters);
  if (word.size() > 1 && word.ends_with('s')) word.remove_suffix(1);
  const auto span = std::find_if(kSpans.begin(), kSpans.end(), [&](const NamedSpan& s) { return s.name == word; });
  Message why_not;
  std::optional<double> hours;
  if (span == kSpans.end()) {
    hours = config::parse_number(text, config::Unit::seconds, why_not);
    if (hours) *hours /= 3600.0;
  } else if (figure.find_first_not_of(' ') == std::string_view::npos) {
    hours = span->hours;
  } else if (const auto count = config::parse_number(figure, config::Unit::count, why_not)) {
    hours = *count * span->hours;
  }
  if (!hours || !(*hours > 0) || *hours > kLongestTerm) return std::nullopt;
  return hours;
}

std::optional<Price> read_price(const Node& node, Diagnostics& diagnostics, const Price& defaults) {
  if (node.is_scalar()) return parse_price(node, diagnostics, defaults);
  const int errors_before = diagnostics.error_count();
  MapReader reader(node, diagnostics, "price");
  Price price = defaults;
  int written = 0, understood = 0;
  for (const auto& [key, per] :
       {std::pair{"per_hour", Price::Per::hour}, {"per_month", Price::Per::month}, {"per_year", Price::Per::year}}) {
    written += reader.has(key);
    const std::optional<Band> amount = read_amount(reader, key);
    if (!amount) continue;
    ++understood;
    price.amount = *amount;
    price.per = per;
  }
  price.currency = reader.text("currency").value_or(price.currency);
  price.whole_periods = reader.boolean("whole_periods").value_or(price.whole_periods);
  if (const auto term = reader.text("minimum_term")) {
    const std::optional<double> hours = parse_term(*term);
    if (!hours) {
      reader.error("minimum_term", message("price.minimum_term: {} is no term; right would be month, quarter, "
                                           "year, 6 months or 30d",
                                           config::in_quotes(*term)));
    }
    price.minimum_hours = hours.value_or(0.0);
  }
  read_terms(reader.node("terms"), price, diagnostics);
  reader.finish();
  if (understood > 1) {
    diagnostics.error(node.position, message("price has more than one of per_hour, per_month and per_year; write one"));
  } else if (written == 0 && (node.is_map() || node.is_null())) {
    diagnostics.error(node.position, message("price needs per_hour, per_month or per_year, for the whole machine"));
  }
  if (diagnostics.error_count() > errors_before || understood != 1) return std::nullopt;
  return price;
}

}  // namespace foretrain
