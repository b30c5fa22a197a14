#include "sim/cli/usage_error.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace foretrain::cli {
namespace {

// The pattern with what stands in the text at its places `{}`; nullopt if the text is none of this pattern.
std::optional<Message> read_as(std::string_view pattern, std::string_view text) {
  std::vector<Message> arguments;
  const std::string_view whole = pattern;
  for (bool first = true;; first = false) {
    const std::size_t place = pattern.find("{}");
    const std::string_view literal = pattern.substr(0, place);
    const bool last = place == std::string_view::npos;
    std::size_t at = text.find(literal);
    if (last) at = text.ends_with(literal) ? text.size() - literal.size() : text.npos;
    if (at == text.npos || (first && at != 0)) return std::nullopt;
    if (!first) arguments.emplace_back(std::string(text.substr(0, at)));
    text.remove_prefix(at + literal.size());
    if (last) return Message(whole, std::move(arguments));
    pattern.remove_prefix(place + 2);
  }
}

}  // namespace

// The sentences of CLI11 (Error.hpp, Validators.hpp) that our options can lead to, the more special ones first.
Message usage_error(const CLI::ParseError& fault) {
  const std::string text = fault.what();
  for (const Message& sentence :
       {message("The following argument was not expected: {}", ""),
        message("The following arguments were not expected: {}", ""), message("A subcommand is required"),
        message("{} is required", ""), message("{} requires {}", "", ""), message("{} excludes {}", "", ""),
        message("Could not convert: {} = {}", "", ""), message("{}: Value {} not in range {} to {}", "", "", "", ""),
        message("{}: {} not in {}", "", "", ""), message("{}: {} required {} missing", "", "", ""),
        message("Expected exactly {} arguments to {}, got {}", "", "", ""),
        message("{}: cannot both be written to {}", "", ""),
        message("{}: {} is not of the form cluster.host.cores=64", "", "")}) {
    if (auto read = read_as(sentence.pattern(), text)) return *read;
  }
  return text;
}

}  // namespace foretrain::cli
