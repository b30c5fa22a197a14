#include "sim/report/calibration_json.h"

#include <nlohmann/json.hpp>

namespace foretrain::report {
namespace {

using Json = nlohmann::ordered_json;

const char* origin_of(CalibrationRule::Kind kind) {
  switch (kind) {
    case CalibrationRule::Kind::absent:
      return "absent";
    case CalibrationRule::Kind::value:
      return "decided";
    case CalibrationRule::Kind::measured:
      return "kernels";
    case CalibrationRule::Kind::as:
      return "inherited";
    case CalibrationRule::Kind::assumed:
      return "assumed";
  }
  return "";
}

Json figure_json(const CalibratedFile& file, const CalibratedFigure& figure) {
  Json json = {
      {"file", file.name}, {"figure", figure.name}, {"values", figure.values}, {"origin", origin_of(figure.origin)}};
  if (figure.quality) {
    const FitQuality& q = *figure.quality;
    json["fitted"] = figure.fitted;
    json["rows"] = q.rows;
    json["condition"] = to_string(q.condition);
    json["median_error"] = q.median_error;
    json["p90_error"] = q.p90_error;
    json["bias"] = q.bias;
    json["at_bound"] = q.at_bound;
    json["without_data"] = q.without_data;
    json["kernels"] = figure.kernels;
    json["sustained"] = figure.sustained;
  }
  json["source"] = figure.source;
  return json;
}

}  // namespace

std::string calibration_json(const Calibration& calibration) {
  Json json = {{"rows", calibration.rows}, {"cards", calibration.cards}, {"inherited", calibration.inherited}};
  json["figures"] = Json::array();
  for (const CalibratedFile& file : calibration.files) {
    for (const CalibratedFigure& figure : file.figures) {
      if (!figure.values.empty()) json["figures"].push_back(figure_json(file, figure));
    }
  }
  const CollectiveFit& c = calibration.collectives;
  json["collectives"] = {{"runs", c.runs},
                         {"points", c.points},
                         {"mean_error", c.mean_error},
                         {"median_error", c.median_error},
                         {"fitted_mean_error", c.fitted_mean_error},
                         {"fitted_median_error", c.fitted_median_error},
                         {"constants", Json::array()}};
  for (const CollectiveConstant& k : c.constants) {
    json["collectives"]["constants"].push_back(
        {{"name", k.name}, {"value", k.value}, {"fitted", k.fitted}, {"points", k.points}});
  }
  json["hosts"] = Json::array();
  for (const HostRate& r : calibration.hosts) {
    Json rate = {
        {"name", r.name}, {"median", r.fitted}, {"lowest", r.lowest}, {"highest", r.highest}, {"rows", r.rows}};
    if (r.in_use) rate["in_use"] = *r.in_use;
    json["hosts"].push_back(rate);
  }
  return json.dump(1) + "\n";
}

}  // namespace foretrain::report
