#pragma once

#include <doctest/doctest.h>

#include <stdexcept>
#include <string>

#include "tests/support/cases.h"
#include "tests/support/text.h"

namespace foretrain::testing {

// Whether a case, written as for case_of(), is refused with these words.
inline bool refused(const std::string& yaml, const std::string& mention) {
  try {
    case_of(yaml);
  } catch (const std::runtime_error& error) {
    const bool said = contains(error.what(), mention);
    if (!said) MESSAGE(std::string(error.what()));
    return said;
  }
  return false;
}

}  // namespace foretrain::testing
