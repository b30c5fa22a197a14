#include "sim/config/utf8.h"

#include <fmt/format.h>

#include <cstddef>

namespace foretrain::config {
namespace {

// Length of the well-formed sequence at `offset` (RFC 3629 section 4), or 0.
std::size_t sequence_length(std::string_view text, std::size_t offset) {
  const auto byte = [&](std::size_t i) -> unsigned {
    return offset + i < text.size() ? static_cast<unsigned char>(text[offset + i]) : 0U;
  };
  const auto tail = [&](std::size_t i) { return (byte(i) & 0xC0U) == 0x80U; };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return tail(1) ? 2 : 0;
  if (lead >= 0xE0 && lead <= 0xEF) {
    const bool overlong = lead == 0xE0 && byte(1) < 0xA0;
    const bool surrogate = lead == 0xED && byte(1) >= 0xA0;
    return tail(1) && tail(2) && !overlong && !surrogate ? 3 : 0;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    const bool overlong = lead == 0xF0 && byte(1) < 0x90;
    const bool beyond = lead == 0xF4 && byte(1) >= 0x90;
    return tail(1) && tail(2) && tail(3) && !overlong && !beyond ? 4 : 0;
  }
  return 0;
}

}  // namespace

TextCheck check_text(std::string_view text) {
  TextCheck check;
  for (std::size_t offset = 0; offset < text.size();) {
    const auto byte = static_cast<unsigned char>(text[offset]);
    const std::size_t length = sequence_length(text, offset);
    const bool control = (byte < 0x20 && byte != '\t' && byte != '\n' && byte != '\r') || byte == 0x7F;
    const auto shown = [&] { return fmt::format("0x{:02x}", byte); };
    if (length == 0) check.wrong = message("byte {} is not UTF-8 text; save the file as UTF-8", shown());
    if (control) check.wrong = message("control character {} in the text; is this a YAML file?", shown());
    if (!check.wrong.empty()) return check;
    if (byte == '\n') {
      ++check.line;
      check.column = 1;
    } else {
      check.column += static_cast<int>(length);
    }
    offset += length;
  }
  return check;
}

}  // namespace foretrain::config
