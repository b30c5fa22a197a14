#include "sim/config/quote.h"

namespace foretrain::config {

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kLongest = 60;
  std::size_t length = text.size();
  if (length > kLongest) {
    length = kLongest;
    const auto continues = [&](std::size_t i) { return (static_cast<unsigned char>(text[i]) & 0xC0U) == 0x80U; };
    while (length > 0 && continues(length)) --length;
  }
  std::string result = "'";
  for (const char c : text.substr(0, length)) {
    const auto byte = static_cast<unsigned char>(c);
    result += byte < 0x20 || byte == 0x7F ? '?' : c;
  }
  if (length < text.size()) result += "...";
  return result + "'";
}

}  // namespace foretrain::config
