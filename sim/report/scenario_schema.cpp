#include "sim/report/scenario_schema.h"

#include <cmath>

#include "sim/report/json_support.h"
#include "sim/scenario/fields.h"

namespace foretrain::report {
namespace {

using Kind = Field::Kind;
using Place = Field::Place;

Json object_of(const std::vector<const Field*>& keys);

// Numbers with units or powers are strings to an editor.
Json written_as_text() { return {{"type", "string"}, {"pattern", "^[+]?[.]?[0-9]"}}; }

Json number_schema(const Field& field) {
  Json bare = {{"type", field.kind == Kind::integer ? "integer" : "number"}};
  // Other units scale the bare number; their bounds are the reader's alone.
  if (field.unit == config::Unit::count || field.unit == config::Unit::watts) {
    if (std::isfinite(field.range.min)) bare["minimum"] = field.range.min;
    if (std::isfinite(field.range.max)) bare["maximum"] = field.range.max;
  }
  return bare;
}

// The ways a single value is written.
std::vector<Json> value_schemas(const Field& field) {
  std::vector<Json> ways;
  if (field.kind == Kind::boolean) ways.push_back({{"type", "boolean"}});
  if (field.kind == Kind::text) ways.push_back({{"type", {"string", "number", "boolean"}}});
  if (field.kind == Kind::integer || field.kind == Kind::number) {
    ways.push_back(number_schema(field));
    ways.push_back(written_as_text());
  }
  if (!field.words.empty()) ways.push_back({{"enum", field.words}});
  return ways;
}

Json one_of(const std::vector<Json>& ways) { return ways.size() == 1 ? ways.front() : Json{{"anyOf", ways}}; }

std::string description_of(const Field& field) {
  std::string text(field.meaning);
  if (!field.fallback.empty()) text += " (default: " + std::string(field.fallback) + ")";
  return text;
}

Json schema_of(const Field& field) {
  Json schema = Json::object();
  schema["description"] = description_of(field);
  if (field.kind == Kind::anything) return schema;
  std::vector<Json> ways = value_schemas(field);
  const std::vector<const Field*> keys = keys_of(field.path, field.place);
  if (!keys.empty()) ways.push_back(object_of(keys));
  if (field.by_gpu) ways.push_back({{"type", "object"}, {"additionalProperties", number_schema(field)}});
  if (field.path == "base") ways = {{{"$ref", "#/definitions/case"}}};
  if (field.path == "cases") ways = {{{"$ref", "#/definitions/case"}}};
  Json value = one_of(ways);
  if (field.list && field.kind == Kind::map) {
    value = {{"type", "array"}, {"items", value}};
  } else if (field.list) {
    value = {{"anyOf", {value, Json{{"type", "array"}, {"items", value}}}}};
  }
  schema.update(value);
  return schema;
}

Json object_of(const std::vector<const Field*>& keys) {
  Json object = {{"type", "object"}, {"additionalProperties", false}};
  for (const Field* field : keys) object["properties"][std::string(field->key())] = schema_of(*field);
  return object;
}

}  // namespace

std::string scenario_schema() {
  std::vector<const Field*> case_keys = keys_of("", Place::in_case);
  for (const Field* field : keys_of("", Place::measured)) case_keys.push_back(field);
  Json schema = {{"$schema", "http://json-schema.org/draft-07/schema#"}, {"title", "Scenario of foretrain"}};
  schema.update(object_of(keys_of("", Place::file)));
  schema["definitions"]["case"] = object_of(case_keys);
  return dumped(schema);
}

}  // namespace foretrain::report
