#include "sim/report/scenario_schema.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <regex>

#include "sim/config/tree.h"
#include "sim/report/catalogue_text.h"

namespace foretrain::report {
namespace {

using nlohmann::json;

const std::filesystem::path kRoot = FORETRAIN_SOURCE_DIR;

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

json as_json(const std::string& yaml) {
  Diagnostics said;
  const auto node = config::parse_yaml(yaml, "t.yaml", said);
  REQUIRE(node);
  return json::parse(node_json(*node));
}

bool has_type(const json& value, const std::string& type) {
  if (type == "integer") return value.is_number() && value == std::floor(value.get<double>());
  if (type == "number") return value.is_number();
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_boolean();
  if (type == "array") return value.is_array();
  REQUIRE(type == "object");
  return value.is_object();
}

// As much of JSON Schema as ours uses; an unknown keyword fails the test.
bool satisfies(const json& value, const json& schema, const json& root) {
  for (const auto& [keyword, rule] : schema.items()) {
    if (keyword == "description" || keyword == "$schema" || keyword == "title" || keyword == "definitions") continue;
    bool holds = true;
    if (keyword == "type") {
      holds = rule.is_array() ? std::any_of(rule.begin(), rule.end(), [&](const json& t) { return has_type(value, t); })
                              : has_type(value, rule);
    } else if (keyword == "enum") {
      holds = std::find(rule.begin(), rule.end(), value) != rule.end();
    } else if (keyword == "minimum" || keyword == "maximum") {
      holds = !value.is_number() || (keyword == "minimum" ? value >= rule : value <= rule);
    } else if (keyword == "pattern") {
      holds = !value.is_string() || std::regex_search(value.get<std::string>(), std::regex(rule.get<std::string>()));
    } else if (keyword == "anyOf") {
      holds = std::any_of(rule.begin(), rule.end(), [&](const json& way) { return satisfies(value, way, root); });
    } else if (keyword == "$ref") {
      holds = satisfies(value, root.at(json::json_pointer(rule.get<std::string>().substr(1))), root);
    } else if (keyword == "items") {
      holds = !value.is_array() ||
              std::all_of(value.begin(), value.end(), [&](const json& item) { return satisfies(item, rule, root); });
    } else if (keyword == "properties") {
      for (const auto& [key, inner] : rule.items()) {
        if (value.is_object() && value.contains(key)) holds = holds && satisfies(value[key], inner, root);
      }
    } else if (keyword == "additionalProperties") {
      for (auto entry = value.begin(); value.is_object() && entry != value.end(); ++entry) {
        holds = holds && schema.at("properties").contains(entry.key());
      }
    } else {
      FAIL("keyword " << keyword);
    }
    if (!holds) return false;
  }
  return true;
}

bool is_valid(const std::string& yaml) {
  static const json schema = json::parse(scenario_schema());
  return satisfies(as_json(yaml), schema, schema);
}

TEST_CASE("every scenario and every file of measured runs satisfies the schema") {
  int files = 0;
  for (const char* folder : {"scenarios", "tests/validation/measured", "tests/scenario/data"}) {
    for (const auto& entry : std::filesystem::directory_iterator(kRoot / folder)) {
      if (entry.path().extension() != ".yaml") continue;
      CAPTURE(entry.path().string());
      CHECK(is_valid(text_of(entry.path())));
      ++files;
    }
  }
  CHECK(files > 20);
}

TEST_CASE("the schema refuses what the reader refuses") {
  CHECK(is_valid("cases: [{name: a, plan: auto, train: {tokens: 1.5T, seq_len: 16k}}]"));
  CHECK(is_valid("cases: [{cluster: {nics: per-gpu, nic_gbps: 200Gb/s, host: {dram_gb: 74.5GiB}}}]"));
  CHECK(is_valid("base: {plan: {recompute: {blocks: 4}, offload: {optimizer: cpu}}, price: 2800CNY/month}"));
  CHECK_FALSE(is_valid("case: []"));
  CHECK_FALSE(is_valid("cases: [{plan: {zeros: 2}}]"));
  CHECK_FALSE(is_valid("cases: [{plan: {zero: 4}}]"));
  CHECK_FALSE(is_valid("cases: [{plan: best}]"));
  CHECK_FALSE(is_valid("base: {train: {precision: bf17}}"));
  CHECK_FALSE(is_valid("base: {train: {seq_len: many}}"));
  CHECK_FALSE(is_valid("base: {cluster: {overrides: [{link: usb}]}}"));
  CHECK_FALSE(is_valid("base: {cluster: {p2p: 3}}"));
}

TEST_CASE("the copies in docs are those of the program") {
  const std::string how = "; write it anew with 'foretrain schema'";
  CHECK_MESSAGE(text_of(kRoot / "docs/scenario.schema.json") == scenario_schema(), "docs/scenario.schema.json" << how);
  CHECK_MESSAGE(text_of(kRoot / "docs/scenario.md") == scenario_page(), "docs/scenario.md" << how << " --markdown");
}

}  // namespace
}  // namespace foretrain::report
