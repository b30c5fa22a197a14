#pragma once

#include <string>

namespace foretrain {

// Pieces of YAML as `foretrain calibrate` writes it, no wider than 120 columns unless a single word is.

// A double-quoted scalar that begins in `column`, folded over several lines where it is long; a fold reads as one
// space. Lines after the first are indented by `indent`.
std::string quoted_scalar(const std::string& text, std::size_t column, std::size_t indent);

// `text` as lines of comment; empty for an empty text. Its own line breaks stay.
std::string comment_lines(const std::string& text, std::size_t indent);

}  // namespace foretrain
