#pragma once

#include <cstdint>
#include <string>

#include "sim/base/time.h"
#include "sim/base/units.h"

namespace foretrain::report {

// Figures for people; JSON and CSV carry full digits.
std::string grouped(double value);                  // "12,345": thousands apart, no decimals
std::string significant(double value, int digits);  // "1.234", "0.05"
std::string percent(double share);                  // 0.4567 -> "45.7 %"
std::string signed_percent(double share);           // "+4.6 %"
std::string duration(Time time);                    // "1.234 s", "56.78 ms", four digits
std::string gib(Bytes bytes);                       // GiB (2^30 bytes), without the unit: "38.1"
std::string money(double amount);                   // "1,234" or "12.34"

// ps / 1e12, correctly rounded: what JSON and CSV print.
double exact_seconds(Time time);

}  // namespace foretrain::report
