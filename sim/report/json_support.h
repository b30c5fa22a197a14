#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "sim/report/run_report.h"

namespace foretrain::report {

using Json = nlohmann::ordered_json;  // keys stay in the order they are written

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}
inline Json or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

// In the form of a scenario's plan.
Json plan_json(const Case& subject);

// Seconds of every part.
Json breakdown_s(const Breakdown& breakdown);

// What the JSON of `run` says about one case, and about all.
Json case_json(const CaseReport& report);
Json run_answer(const RunReport& report);

// Two spaces of indentation; bytes that are not UTF-8 (of file names) are replaced.
inline std::string dumped(const Json& json) { return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"; }

}  // namespace foretrain::report
