#include "sim/scenario/fields.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "sim/config/write.h"
#include "sim/scenario/run_notes.h"
#include "sim/scenario/scenario.h"
#include "tests/scenario/support.h"

namespace foretrain {
namespace {

using config::Node;
using Kind = Field::Kind;
using Place = Field::Place;

// A word that no reader knows, and no key is near to.
constexpr const char* kUnknown = "qqqqqqqqqqqq";

// {train: {seq_len: value}} of "train.seq_len"; "[]" is a list of one.
Node nested(std::string_view path, Node value) {
  const std::size_t dot = path.find('.');
  std::string key(path.substr(0, dot));
  if (dot != std::string_view::npos) value = nested(path.substr(dot + 1), std::move(value));
  if (key.ends_with("[]")) {
    key.resize(key.size() - 2);
    value = Node{{}, Node::Sequence{std::move(value)}, false};
  }
  Node map = config::empty_map();
  config::set_entry(map, key, std::move(value));
  return map;
}

Node plain(const std::string& text) { return Node{{}, text, false}; }

// What the reader says of a value at a path, in a file that is otherwise right.
std::string said_of(std::string_view path, Place place, const Node& value) {
  Diagnostics ignored;
  const Node one = *config::parse_yaml(R"(
model: {arch: moe, layers: 4, hidden: 512, heads: 8, ffn: 2048, vocab: 1000, experts: 10000, top_k: 2, expert_ffn: 64}
cluster: {gpu: a100-sxm4-80gb, gpus: 8, nics: 1, nic_gbps: 100}
train: {peft: {kind: lora}}
measured: {step_time_s: 1}
)",
                                       "t.yaml", ignored);
  const Node case_node = place == Place::file ? one
                         : path.empty()       ? merge(one, value)
                                              : merge(one, nested(path, value));
  Node file = config::empty_map();
  config::set_entry(file, "cases", Node{{}, Node::Sequence{case_node}, false});
  if (place == Place::file) file = path.empty() ? merge(file, value) : merge(file, nested(path, value));
  const testing::TemporaryFile written(config::write_yaml(file));
  Diagnostics said;
  const auto measured = load_measured(written.path(), testing::kData, {}, said);
  std::string text = testing::shown(said);
  if (measured) {
    for (const std::string& refusal : measured->cases.front().refusals) text += refusal + "\n";
  }
  return text;
}

// The comma-separated words after `before` in the message about the unknown word.
std::set<std::string> words_after(const std::string& text, const std::string& before) {
  std::set<std::string> words;
  const std::size_t unknown = text.find(kUnknown);
  std::size_t begin = unknown == std::string::npos ? unknown : text.find(before, unknown);
  if (begin == std::string::npos) return words;
  begin += before.size();
  const std::size_t end = std::min(text.find_first_of(";\n", begin), text.size());
  while (begin < end) {
    const std::size_t comma = std::min(text.find(", ", begin), end);
    words.emplace(text.substr(begin, comma - begin));
    begin = comma + 2;
  }
  return words;
}

std::set<std::string> keys_in_table(std::string_view path, Place place) {
  std::set<std::string> keys;
  for (const Field* field : keys_of(path, place)) keys.emplace(field->key());
  return keys;
}

TEST_CASE("the reader knows exactly the keys of the table, in every map") {
  std::vector<std::pair<std::string, Place>> maps = {{"", Place::file}, {"", Place::in_case}};
  for (const Field& field : scenario_fields()) {
    const bool of_cases = field.path == "base" || field.path == "cases";
    if (!of_cases && !keys_of(field.path, field.place).empty()) {
      maps.emplace_back(std::string(field.path) + (field.list ? "[]" : ""), field.place);
    }
  }
  CHECK(maps.size() > 14);
  for (const auto& [path, place] : maps) {
    CAPTURE(path);
    Node unknown_key = config::empty_map();
    config::set_entry(unknown_key, kUnknown, plain("1"));
    const std::string said = said_of(path, place, unknown_key);
    CAPTURE(said);
    std::set<std::string> in_table =
        keys_in_table(path.ends_with("[]") ? path.substr(0, path.size() - 2) : path, place);
    if (path.empty() && place == Place::in_case) in_table.merge(keys_in_table("", Place::measured));
    CHECK(words_after(said, "known keys: ") == in_table);
  }
}

TEST_CASE("a choice allows exactly the words of the table") {
  int choices = 0;
  for (const Field& field : scenario_fields()) {
    if (field.kind != Kind::choice || field.path == "plan") continue;
    CAPTURE(field.path);
    const std::string said = said_of(field.path, field.place, plain(kUnknown));
    CAPTURE(said);
    const std::set<std::string> in_table(field.words.begin(), field.words.end());
    CHECK(words_after(said, "is not one of ") == in_table);
    ++choices;
  }
  CHECK(choices > 20);
}

TEST_CASE("words beside numbers, and plan: auto, are taken") {
  for (const Field& field : scenario_fields()) {
    if (field.kind != Kind::integer && field.path != "plan") continue;
    for (const std::string_view word : field.words) {
      CAPTURE(field.path);
      const std::string said = said_of(field.path, field.place, plain(std::string(word)));
      CHECK(said.find(fmt::format("'{}'", word)) == std::string::npos);
    }
  }
}

TEST_CASE("numbers have exactly the bounds of the table") {
  // Bounds that follow from other fields: only what they are at most is in the table.
  const std::set<std::string_view> from_others = {"cluster.overrides[].node", "cluster.overrides[].index",
                                                  "cluster.overrides[].factor"};
  int bounds = 0;
  for (const Field& field : scenario_fields()) {
    if (field.kind != Kind::integer && field.kind != Kind::number) continue;
    CAPTURE(field.path);
    Message why_not;
    const double scale = field.kind == Kind::integer ? 1.0 : config::parse_number("1", field.unit, why_not).value();
    const auto is_refused = [&](double value) {
      const std::string text =
          field.kind == Kind::integer ? fmt::format("{:.0f}", value) : fmt::format("{}", value / scale);
      const std::string said = said_of(field.path, field.place, plain(text));
      return said.find(fmt::format("={} is out of range", text)) != std::string::npos;
    };
    const double step = field.kind == Kind::integer ? 1.0 : 1e-6 * std::abs(field.range.max);
    const double small = field.kind == Kind::integer ? 1.0 : std::max(1e-6 * std::abs(field.range.min), 1e-12);
    CHECK_FALSE(is_refused(field.range.min + (field.kind == Kind::integer ? 0.0 : small)));
    CHECK(is_refused(field.range.min - small));
    CHECK(is_refused(field.range.max + step));
    if (!from_others.contains(field.path)) {
      CHECK_FALSE(is_refused(field.range.max - (field.kind == Kind::integer ? 0.0 : step)));
    }
    ++bounds;
  }
  CHECK(bounds > 50);
}

TEST_CASE("texts, booleans and lists are what the table says") {
  Node map = config::empty_map();
  config::set_entry(map, "a", plain("b"));
  const Node list{{}, Node::Sequence{plain("zzz"), plain("zzz")}, false};
  for (const Field& field : scenario_fields()) {
    const bool read = field.kind == Kind::text || field.kind == Kind::boolean;
    if (!read || field.path == "model" || field.path == "software" || field.path == "cluster.host.cpu") continue;
    CAPTURE(field.path);
    const std::string of_map = said_of(field.path, field.place, map), of_list = said_of(field.path, field.place, list);
    const bool may_be_map = !keys_of(field.path, field.place).empty();
    if (!may_be_map && field.path != "name") CHECK(of_map.find("stands where") != std::string::npos);
    const bool list_refused =
        of_list.find("stands where") != std::string::npos || of_list.find("must be") != std::string::npos;
    CHECK(list_refused != field.list);
    if (field.kind == Kind::boolean) {
      CHECK(said_of(field.path, field.place, plain("zzz")).find("is not a boolean") != std::string::npos);
    }
  }
}

TEST_CASE("flags and paths are each there once") {
  std::set<std::string_view> paths, flags;
  for (const Field& field : scenario_fields()) {
    CHECK_MESSAGE(paths.insert(field.path).second, field.path);
    if (!field.flag.empty()) CHECK_MESSAGE(flags.insert(field.flag).second, field.flag);
    CHECK_MESSAGE(!field.meaning.empty(), field.path);
  }
}

}  // namespace
}  // namespace foretrain
