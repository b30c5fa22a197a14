#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace foretrain {

// Something said to people that can be said in any language: an English pattern with a place `{}` for each argument,
// and the arguments, which are names and figures (the same in every language) or messages themselves. Whoever
// prints it looks the pattern up in a catalogue (report/words.h); english() needs none.
class Message {
 public:
  Message() = default;
  // A name or figure: printed as it is.
  Message(std::string name) : pattern_(std::move(name)) {}  // NOLINT: implicit, arguments are made from names
  // Made by message() below.
  Message(std::string_view pattern, std::vector<Message> arguments)
      : is_name_(false), pattern_(pattern), arguments_(std::move(arguments)) {}

  bool empty() const { return pattern_.empty(); }
  bool is_name() const { return is_name_; }
  const std::string& pattern() const { return pattern_; }
  const std::vector<Message>& arguments() const { return arguments_; }
  std::string english() const;
  bool operator==(const Message&) const = default;

 private:
  bool is_name_ = true;
  std::string pattern_;
  std::vector<Message> arguments_;
};

// The pattern with the texts in its places, in order or as `{0}`, `{1}`. Throws fmt::format_error if it has more places
// than there are texts.
std::string filled(std::string_view pattern, const std::vector<std::string>& texts);

namespace detail {
template <class T>
Message argument(T&& value) {
  if constexpr (std::is_convertible_v<T&&, Message>) {
    return Message(std::forward<T>(value));
  } else {
    return Message(fmt::format("{}", std::forward<T>(value)));
  }
}
template <class T>
using Printed = std::string;
}  // namespace detail

// message("{} of {} GPUs", 3, name): the pattern's places are counted by the compiler. Figures are formatted before
// they come here, if plain `{}` is not how they should look.
template <class... Arguments>
Message message(fmt::format_string<detail::Printed<Arguments>...> pattern, Arguments&&... arguments) {
  const fmt::string_view text = pattern;
  return Message(std::string_view(text.data(), text.size()), {detail::argument(std::forward<Arguments>(arguments))...});
}

// What the operating system or a library says of itself: a pattern without places, whatever braces are in it.
Message quoted_words(std::string_view text);
// Of an error number of the system, "No such file or directory".
Message system_error(int number);

std::vector<std::string> english(const std::vector<Message>& messages);

// Messages one after another: "a, b and c" is joined({a, b, c}, ", ", message(" and ")).
Message joined(const std::vector<Message>& parts, const Message& between);

}  // namespace foretrain
