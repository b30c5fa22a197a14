#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/config/reader.h"

namespace foretrain {

// One key of a scenario file in words: what it means and which values the reader takes. The JSON Schema for editors,
// docs/scenario.md, the flags of the command line and the comments that `foretrain init` writes are all made of these;
// tests/scenario/fields_test.cpp holds every key, word and bound against the reader itself.
struct Field {
  enum class Kind { map, text, boolean, integer, number, choice, anything };
  // Where it may stand: at the top of the file, in a case (and in `base`), or in a case of a file of measured runs.
  enum class Place { file, in_case, measured };

  std::string_view path;  // "train.seq_len", from where its place starts; "[]" stands for every item of a list
  Kind kind = Kind::map;
  std::string_view meaning;
  std::string_view fallback = {};            // what is taken if it is not written; empty: nothing, or it must be given
  std::vector<std::string_view> words = {};  // all that a choice allows; words that another kind takes as well
  config::Range range = {};                  // of integers and numbers, in the base unit
  config::Unit unit = config::Unit::count;   // of numbers
  bool list = false;                         // a list of such values, where one alone is a list of one
  bool by_gpu = false;                       // or a map of such values by the name of a GPU
  std::string_view flag = {};                // of the command line, "--seq-len"; empty: --set PATH=VALUE
  std::string_view other_flag = {};          // a second spelling of it, "--seq"
  Place place = Place::in_case;

  std::string_view key() const;     // the last part of the path
  std::string_view parent() const;  // the path up to it; empty at the start
};

// All of them; a map stands before its keys. A field that is not a map and has keys may be written either way
// (`recompute: full` or `recompute: {blocks: 4}`).
const std::vector<Field>& scenario_fields();

// The keys of a map: those whose parent() is `path` at that place.
std::vector<const Field*> keys_of(std::string_view path, Field::Place place);

// The field at a path of a case, or nullptr.
const Field* find_field(std::string_view path);

// How values of a field are written, in words: "a whole number from 1 to 16777216", "bf16 | fp16 | ...", "GB/s".
std::string values_in_words(const Field& field);

}  // namespace foretrain
