#pragma once

#include <string>
#include <string_view>

#include "sim/base/message.h"

namespace foretrain::config {

// How far a byte string is text.
struct TextCheck {
  Message wrong;   // what is wrong at the place below and what would be right; empty if all of it is text
  int line = 1;    // from 1; of the first wrong byte, or of the end
  int column = 1;  // in bytes from 1, as the parser counts
};

// Looks for the first place where `text` is not printable UTF-8 (RFC 3629): a malformed sequence, or a control
// character other than tab, line feed and carriage return.
TextCheck check_text(std::string_view text);

}  // namespace foretrain::config
