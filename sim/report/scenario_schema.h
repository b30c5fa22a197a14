#pragma once

#include <string>

namespace foretrain::report {

// A JSON Schema (draft 7, which editors know) of scenario files and files of measured runs, from scenario_fields(). It
// allows no key, word or bare number that the reader refuses; rules between fields are the reader's alone.
std::string scenario_schema();

// The same as a page of Markdown.
std::string scenario_page();

}  // namespace foretrain::report
