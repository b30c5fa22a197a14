#include <nlohmann/json.hpp>

#include "sim/report/calibration_report.h"

namespace foretrain::report {

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

namespace {

using Json = nlohmann::ordered_json;

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

Json collectives_json(const CollectiveFit& fit) {
  const auto error = [](const CollectiveError& e) { return Json{{"mean", e.mean}, {"median", e.median}}; };
  Json json = {{"runs", fit.runs},
               {"points", fit.points},
               {"given_error", error(fit.given)},
               {"written_error", error(fit.written)},
               {"fitted_error", error(fit.fitted)},
               {"left_out_error", error(fit.left_out)},
               {"classes", Json::array()}};
  for (const CollectiveFit::Class& c : fit.classes) {
    json["classes"].push_back({{"name", c.name},
                               {"runs", c.runs},
                               {"points", c.points},
                               {"given_error", c.given},
                               {"fitted_error", c.fitted},
                               {"left_out_error", c.left_out}});
  }
  return json;
}

Json constant_json(const ConstantRule& rule, const Calibration& calibration) {
  Json json = {{"name", rule.name}, {"given", rule.value}};
  for (const ConstantFit& fit : calibration.constants) {
    if (fit.name != rule.name || fit.points == 0) continue;
    json["fitted"] = fit.fitted;
    json["points"] = fit.points;
    json["machines"] = fit.systems;
    json["at_bound"] = fit.at_bound;
    json["written"] = rule.take_fit ? fit.fitted : rule.value;
    return json;
  }
  json["points"] = 0;
  json["written"] = rule.value;
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
  json["collectives"] = collectives_json(calibration.collectives);
  json["constants"] = Json::array();
  for (const ConstantRule& rule : calibration.given) json["constants"].push_back(constant_json(rule, calibration));
  return json.dump(1) + "\n";
}

}  // namespace foretrain::report
