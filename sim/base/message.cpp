#include "sim/base/message.h"

#include <fmt/args.h>

#include <system_error>

namespace foretrain {

std::string filled(std::string_view pattern, const std::vector<std::string>& texts) {
  fmt::dynamic_format_arg_store<fmt::format_context> store;
  for (const std::string& text : texts) store.push_back(text);
  return fmt::vformat(pattern, store);
}

std::string Message::english() const {
  if (is_name_) return pattern_;
  std::vector<std::string> texts;
  for (const Message& argument : arguments_) texts.push_back(argument.english());
  return filled(pattern_, texts);
}

Message quoted_words(std::string_view text) {
  std::string pattern;
  for (const char c : text) pattern.append(c == '{' || c == '}' ? 2 : 1, c);
  return {pattern, {}};
}

Message system_error(int number) { return quoted_words(std::generic_category().message(number)); }

std::vector<std::string> english(const std::vector<Message>& messages) {
  std::vector<std::string> texts;
  for (const Message& said : messages) texts.push_back(said.english());
  return texts;
}

Message joined(const std::vector<Message>& parts, const Message& between) {
  if (parts.empty()) return {};
  Message all = parts.front();
  for (std::size_t i = 1; i < parts.size(); ++i) all = message("{}{}{}", std::move(all), between, parts[i]);
  return all;
}

}  // namespace foretrain
