// Prices, and what they come to for so many hours.

#include "sim/scenario/price.h"

#include <doctest/doctest.h>

#include <random>

#include "sim/config/tree.h"
#include "tests/support/text.h"

using namespace foretrain;
using foretrain::testing::contains;

namespace {

struct PriceReading {
  std::optional<Price> price;
  std::string text;
};

PriceReading read_written_price(const std::string& yaml, const Price& defaults = {}) {
  Diagnostics diagnostics;
  const auto node = config::parse_yaml(yaml, "p", diagnostics);
  PriceReading reading;
  if (node) reading.price = read_price(*node, diagnostics, defaults);
  reading.text = foretrain::testing::shown(diagnostics);
  return reading;
}

Price price_of(const std::string& yaml) {
  const PriceReading reading = read_written_price(yaml);
  INFO(reading.text);
  REQUIRE(reading.price);
  return *reading.price;
}

}  // namespace

TEST_CASE("a month that is begun is paid whole, if the price says so") {
  const Price months = price_of("{per_month: 2800, currency: CNY, whole_periods: true}");
  CHECK(months.cost(72).low == 2800);  // three days
  CHECK(months.cost(kHoursPerMonth).low == 2800);
  CHECK(months.cost(kHoursPerMonth + 1).low == 5600);
  // As used: 72 of 730 hours.
  CHECK(price_of("2800CNY/month").cost(72).low == doctest::Approx(2800.0 * 72 / 730));
  CHECK(price_of("9.5/h").cost(10).low == doctest::Approx(95));
  CHECK(price_of("8760CNY/year").cost(1).low == doctest::Approx(1));
}

TEST_CASE("a minimum term is paid even where less is used") {
  const Price hours = price_of("{per_hour: 2, minimum_term: 3 days}");
  CHECK(hours.cost(1).low == 144);
  CHECK(hours.cost(100).low == 200);
  CHECK(price_of("{per_month: 100, whole_periods: true, minimum_term: quarter}").cost(1).low == 300);
}

TEST_CASE("terms are taken where they are cheaper") {
  const Price p = price_of("{per_month: 1000, whole_periods: true, terms: {quarter: 0.95, year: 0.8}}");
  CHECK(p.cost(2 * kHoursPerMonth).low == 2000);
  CHECK(p.cost(3 * kHoursPerMonth).low == doctest::Approx(2850));
  CHECK(p.cost(4 * kHoursPerMonth).low == doctest::Approx(3850));
  // Ten months: three quarters and a month are 9550, a year is 9600. Eleven: a year is cheaper than 10,550.
  CHECK(p.cost(10 * kHoursPerMonth).low == doctest::Approx(9550));
  CHECK(p.cost(11 * kHoursPerMonth).low == doctest::Approx(9600));
  CHECK(p.cost(13 * kHoursPerMonth).low == doctest::Approx(10600));
}

TEST_CASE("more hours never cost less, and a band stays a band") {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> hours(0, 3 * kHoursPerYear), amount(0, 1000), factor(0.5, 1);
  for (int i = 0; i < 200; ++i) {
    Price p;
    p.amount = {amount(random), 2000};
    p.per = static_cast<Price::Per>(random() % 3);
    p.whole_periods = random() % 2 == 0;
    p.minimum_hours = random() % 2 == 0 ? 0 : hours(random);
    if (random() % 2 == 0) p.terms.push_back({kHoursPerYear, factor(random)});
    if (random() % 2 == 0) p.terms.push_back({3 * kHoursPerMonth, factor(random)});
    const double a = hours(random), b = a + hours(random);
    const Band first = p.cost(a), second = p.cost(b);
    CHECK(first.low <= second.low + 1e-9);
    CHECK(first.low <= first.high);
    // Never dearer than without terms, never cheaper than by the best factor on the hours alone.
    Price plain = p;
    plain.terms.clear();
    CHECK(first.low <= plain.cost(a).low + 1e-9);
    CHECK(first.low >= 0.5 * p.per_hour().low * a - 1e-9);
  }
}

TEST_CASE("prices are read with what stands in for what they do not say") {
  const Price p = price_of("{per_year: [10, 20], currency: EUR, terms: {6 months: 0.9, 2 years: 0.7}}");
  CHECK(p.amount == Band(10, 20));
  CHECK(p.amount.middle() == 15);
  CHECK(p.currency == "EUR");
  REQUIRE(p.terms.size() == 2);
  CHECK(p.terms[0] == Price::Term{2 * kHoursPerYear, 0.7});  // longest first
  CHECK(p.terms[1] == Price::Term{6 * kHoursPerMonth, 0.9});
  CHECK(read_written_price("2/h", {.amount = {}, .currency = "CNY"}).price->currency == "CNY");
  CHECK(parse_term("quarter") == 3 * kHoursPerMonth);
  CHECK(parse_term("36h") == 36.0);
  CHECK_FALSE(parse_term("soon"));
  CHECK_FALSE(parse_term("0 months"));
}

TEST_CASE("wrong prices are refused with what would be right") {
  CHECK(contains(read_written_price("{per_month: [3, 2]}").text, "must be an amount or [LOW, HIGH]"));
  CHECK(contains(read_written_price("{per_month: 3, per_year: 2}").text, "write one"));
  CHECK(contains(read_written_price("{currency: CNY}").text, "needs per_hour, per_month or per_year"));
  CHECK(contains(read_written_price("{per_month: 3, terms: {fortnight: 0.9}}").text, "'fortnight' is no term"));
  CHECK(contains(read_written_price("{per_month: 3, terms: {year: 1.2}}").text, "above 0 and at most 1"));
  CHECK(contains(read_written_price("{per_month: 3, terms: [0.8]}").text, "must be a map"));
  CHECK(contains(read_written_price("{per_month: 3, minimum_term: a while}").text, "is no term"));
  CHECK(contains(read_written_price("{per_month: 3, per: hour}").text, "per"));
  CHECK(contains(read_written_price("2800CNY/decade").text, "is not of the form"));
}
