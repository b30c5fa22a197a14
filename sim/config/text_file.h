#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "sim/config/tree.h"

namespace foretrain::config {

// The bytes of a file, one more than `most` if there are more. A file that cannot be read is reported.
std::optional<std::string> read_text_file(const std::string& path, std::size_t most, Diagnostics& diagnostics);

// The path that a value names: relative ones are beside the file in which it is written, or in the working directory
// for a value of the command line.
std::string path_named_by(const Node& value);

}  // namespace foretrain::config
