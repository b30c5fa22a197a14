#include <cmath>

#include "sim/report/json.h"
#include "sim/report/json_support.h"
#include "sim/report/validation_names.h"

namespace foretrain::report {
namespace {

Json whole(const std::optional<Bytes>& bytes) { return bytes ? Json(std::llround(bytes->value)) : Json(nullptr); }

Json comparison_json(const Comparison& c, const Validation& validation) {
  Json json{{"name", c.name},
            {"source", source_name(validation.sources[c.file].path)},
            {"trust", or_null(c.trust)},
            {"measured_step_time_s", or_null(c.measured_step_time_s)},
            {"predicted_step_time_s", or_null(c.predicted_step_time_s)},
            {"error", or_null(c.error())},
            {"measured_memory_bytes", whole(c.measured_memory)},
            {"predicted_memory_bytes", whole(c.predicted_memory)},
            {"memory_error", or_null(c.memory_error())},
            {"memory_kind", name_of(c.memory_kind)},
            {"measured_oom", c.measured_oom},
            {"predicted_oom", or_null(c.predicted_oom)}};
  if (!c.failure.empty()) json["failure"] = c.failure;
  return json;
}

void add_accuracy(Json& json, const Accuracy& a) {
  json["mape"] = or_null(a.mape);
  json["median_ape"] = or_null(a.median_ape);
  json["p90_ape"] = or_null(a.p90_ape);
  json["bias"] = or_null(a.bias);
  json["memory_mape"] = or_null(a.memory_mape);
  json["oom_accuracy"] = or_null(a.oom_accuracy);
  json["pairwise_order_accuracy"] = or_null(a.pairwise_order_accuracy);
  json["step_times"] = a.step_times;
  json["memories"] = a.memories;
  json["out_of_memory"] = a.out_of_memory;
  json["oom_found"] = or_null(a.oom_found);
  json["pairs"] = a.pairs;
  json["same_model_order_accuracy"] = or_null(a.same_model_order_accuracy);
  json["same_model_pairs"] = a.same_model_pairs;
  json["failures"] = a.failures;
}

Json refused_json(const Validation& validation) {
  Json refused = Json::array();
  for (const Refusal& r : validation.refused) {
    refused.push_back({{"name", r.name},
                       {"source", source_name(validation.sources[r.file].path)},
                       {"why", r.why},
                       {"faulty", r.faulty}});
  }
  return refused;
}

}  // namespace

std::string validation_json(const Validation& validation) {
  Json json{{"schema", 1}, {"cases", Json::array()}};
  for (const Comparison& c : validation.cases) json["cases"].push_back(comparison_json(c, validation));
  Json summary{{"cases", validation.summary.cases}, {"refused", refused_json(validation)}};
  add_accuracy(summary, validation.summary);
  summary["mape_of_sources"] = or_null(validation.mape_of_sources);
  json["summary"] = std::move(summary);
  json["by_source"] = Json::array();
  for (const Validation::Source& s : validation.sources) {
    Json source{{"source", source_name(s.path)},
                {"title", or_null(s.title)},
                {"url", or_null(s.url)},
                {"cases", s.accuracy.cases},
                {"refused", s.refused}};
    add_accuracy(source, s.accuracy);
    json["by_source"].push_back(std::move(source));
  }
  return dumped(json);
}

}  // namespace foretrain::report
