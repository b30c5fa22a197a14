#include "sim/report/figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace foretrain::report {

std::string grouped(double value) {
  const std::string digits = fmt::format("{:.0f}", value);
  if (!std::isfinite(value)) return digits;
  const std::size_t start = digits.starts_with('-') ? 1 : 0;
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > start && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

std::string significant(double value, int digits) {
  const double magnitude = value == 0 || !std::isfinite(value) ? 0 : std::floor(std::log10(std::abs(value)));
  return fmt::format("{:.{}f}", value, std::max(0, digits - 1 - static_cast<int>(magnitude)));
}

std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }
std::string signed_percent(double share) { return fmt::format("{:+.1f} %", 100 * share); }

std::string duration(Time time) {
  const double seconds = exact_seconds(time);
  if (seconds >= 10000) return grouped(seconds) + " s";
  if (seconds >= 1 || time.ps == 0) return significant(seconds, 4) + " s";
  if (seconds >= 1e-3) return significant(seconds * 1e3, 4) + " ms";
  return significant(seconds * 1e6, 4) + " us";
}

std::string gib(Bytes bytes) { return fmt::format("{:.1f}", bytes.value / kGiB); }

std::string money(double amount) { return std::abs(amount) >= 1000 ? grouped(amount) : fmt::format("{:.2f}", amount); }

double exact_seconds(Time time) { return static_cast<double>(time.ps) / 1e12; }

}  // namespace foretrain::report
