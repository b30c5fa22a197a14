#pragma once

#include <string>
#include <string_view>

namespace foretrain::config {

// `text` in single quotes, fit for a message: control characters become '?', and long text is cut (at a whole UTF-8
// character), so that a hostile file can neither drive the terminal nor flood it.
std::string in_quotes(std::string_view text);

}  // namespace foretrain::config
