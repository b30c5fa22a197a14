#include "sim/calibration/yaml_text.h"

#include <algorithm>

namespace foretrain {
namespace {

constexpr std::size_t kWidth = 120;

}  // namespace

std::string quoted_scalar(const std::string& text, std::size_t column, std::size_t indent) {
  std::string line = "\"", result;
  std::size_t used = column + 1;
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = std::min(text.find(' ', start + 1), text.size());
    std::string word;
    for (const char c : text.substr(start, end - start)) {
      if (c == '"' || c == '\\') word += '\\';
      word += c;
    }
    if (used + word.size() + 2 > kWidth && word.front() == ' ') {
      result += line + "\n" + std::string(indent, ' ');
      line = word.substr(1);
      used = indent + line.size();
    } else {
      line += word;
      used += word.size();
    }
    start = end;
  }
  return result + line + "\"";
}

std::string comment_lines(const std::string& text, std::size_t indent) {
  const std::string start = std::string(indent, ' ') + "#";
  std::string result, line = start;
  const auto flush = [&] {
    if (line.size() > start.size()) result += line + "\n";
    line = start;
  };
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find_first_of(" \n", at), text.size());
    const std::string word = text.substr(at, end - at);
    if (!word.empty()) {
      if (line.size() + word.size() + 1 > kWidth) flush();
      line += " " + word;
    }
    if (end < text.size() && text[end] == '\n') flush();
    at = end + 1;
  }
  flush();
  return result;
}

}  // namespace foretrain
