#pragma once

#include <CLI/CLI.hpp>

#include "sim/base/message.h"

namespace foretrain::cli {

// What the parser of the command line says of a fault in it, such as "--lang: fr not in {en,zh}".
Message usage_error(const CLI::ParseError& fault);

}  // namespace foretrain::cli
