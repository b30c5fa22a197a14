#pragma once

#include <string>

namespace foretrain {

// ASCII letters in lower case, whatever the locale.
inline std::string lower_case(std::string text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return text;
}

}  // namespace foretrain
