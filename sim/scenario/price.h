#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/config/tree.h"

namespace foretrain {

// From low to high: what an estimate, or an error bar, leaves open.
struct Band {
  double low = 0.0, high = 0.0;

  constexpr Band() = default;
  constexpr Band(double both) : low(both), high(both) {}  // implicit: a known amount is a band of no width
  constexpr Band(double from, double to) : low(from), high(to) {}
  constexpr double middle() const { return low + (high - low) / 2.0; }
  constexpr bool is_point() const { return low == high; }
  constexpr bool operator==(const Band&) const = default;
};
constexpr Band operator+(Band a, Band b) { return {a.low + b.low, a.high + b.high}; }
constexpr Band operator*(Band a, double k) { return {a.low * k, a.high * k}; }

// A month is the twelfth part of a year of 365 days, so that months, quarters and years fit into each other.
inline constexpr double kHoursPerMonth = 730.0, kHoursPerYear = 12.0 * kHoursPerMonth;
// In any currency: beyond it, somebody mistyped.
inline constexpr double kHighestPrice = 1e15;

// What a machine, or a whole cluster, costs, and how it is to be paid.
struct Price {
  Band amount;
  std::string currency = "USD";
  enum class Per { hour, month, year } per = Per::hour;
  bool whole_periods = false;  // a period that is begun is paid whole; else time is paid as it is used
  double minimum_hours = 0.0;  // paid even where less is used
  // Paid beforehand for so long, at a factor.
  struct Term {
    double hours = 0.0, factor = 1.0;
    bool operator==(const Term&) const = default;
  };
  std::vector<Term> terms = {};  // longest first

  double period_hours() const;
  // While it runs, whatever else is to be paid.
  Band per_hour() const { return amount * (1.0 / period_hours()); }
  // For so many hours in one piece, by the cheapest combination of terms: as many whole ones of each kind as fit, or
  // one more instead of everything shorter. Grows with the hours.
  Band cost(double hours) const;
};
const char* to_string(Price::Per per);

// Reads "2800CNY/month", "9.5USD/hour", "9.5/h", or {per_hour | per_month | per_year: AMOUNT or [LOW, HIGH], currency,
// minimum_term, whole_periods, terms: {quarter: 0.95, year: 0.8}}. What is not written is as in `defaults`. Everything
// wrong is reported; nullopt then.
std::optional<Price> read_price(const config::Node& node, Diagnostics& diagnostics, const Price& defaults = {});

// "month", "3 months", "quarter", "year", or a duration such as 30d: in hours. nullopt if it is none of these.
std::optional<double> parse_term(std::string_view text);

}  // namespace foretrain
