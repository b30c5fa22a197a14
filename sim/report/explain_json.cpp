#include <cmath>

#include "sim/report/describe.h"
#include "sim/report/explain_report.h"
#include "sim/report/figures.h"
#include "sim/report/json_support.h"

namespace foretrain::report {
namespace {

Json held_json(const HeldBy& held) {
  Json json = Json::object();
  for (const auto& [name, seconds] : held.named()) json[std::string(name)] = seconds;
  return json;
}

Json path_json(const CriticalPath& path) {
  Json places = Json::array();
  for (const CriticalPath::Place& place : path.places()) {
    places.push_back({{"what", place.longest.what.english()},
                      {"stays", place.visits},
                      {"held_s", held_json(place.held)},
                      {"longest",
                       {{"begin_s", exact_seconds(place.longest.begin)},
                        {"end_s", exact_seconds(place.longest.end)},
                        {"tasks", place.longest.tasks}}}});
  }
  return {{"held_s", held_json(path.held)}, {"places", std::move(places)}};
}

Json hardware_json(const Explanation& e) {
  const double now = e.report.step_time.seconds();
  Json rates = Json::array();
  for (const Explanation::Faster& f : e.hardware) {
    rates.push_back({{"rate", to_string(f.rate)},
                     {"elasticity", f.elasticity},
                     {"one_percent_faster", f.gain},
                     {"one_percent_slower", f.loss},
                     {"kink", f.kink()},
                     {"twice",
                      {{"step_time_s", exact_seconds(f.twice)},
                       {"gain", 1.0 - f.twice.seconds() / now},
                       {"gain_by_elasticity", 1.0 - f.twice_by_elasticity}}}});
  }
  return rates;
}

Json software_json(const Explanation& e) {
  const double now = e.report.step_time.seconds();
  Json changes = Json::array();
  for (const TriedChange& tried : e.software) {
    changes.push_back({{"change", tried.change.name},
                       {"what", tried.change.what.english()},
                       {"step_time_s", exact_seconds(tried.outcome.step_time)},
                       {"gain", 1.0 - tried.outcome.step_time.seconds() / now},
                       {"gpu_peak_bytes", std::llround(tried.outcome.needed.value)},
                       {"fits", tried.outcome.fits}});
  }
  return changes;
}

}  // namespace

std::string explain_json(const std::string& title, std::span<const Explanation> cases) {
  Json json{{"schema", 1}, {"title", title}, {"cases", Json::array()}};
  for (const Explanation& e : cases) {
    const CaseReport& r = e.report;
    Json stages = Json::array();
    for (const Breakdown& stage : stage_breakdowns(r))
      stages.push_back({{"stage", stages.size()}, {"breakdown_s", breakdown_s(stage)}});
    json["cases"].push_back({{"name", r.name},
                             {"fits", r.fits},
                             {"step_time_s", exact_seconds(r.step_time)},
                             {"breakdown_s", breakdown_s(r.breakdown)},
                             {"stages", std::move(stages)},
                             {"critical_path", path_json(e.path)},
                             {"hardware", hardware_json(e)},
                             {"not_shortened", e.report.elasticity->other},
                             {"software", software_json(e)}});
  }
  return dumped(json);
}

std::string figures_json(const std::string& title, std::span<const ExplainedFigures> cases) {
  Json json{{"schema", 1}, {"title", title}, {"cases", Json::array()}};
  for (const ExplainedFigures& c : cases) {
    Json figures = Json::array();
    for (const FigureFormula& f : c.figures) {
      Json inputs = Json::array();
      for (const FigureFormula::Input& in : f.inputs) {
        inputs.push_back({{"symbol", in.symbol},
                          {"value", in.value},
                          {"unit", or_null(in.unit)},
                          {"meaning", in.meaning.english()}});
      }
      figures.push_back({{"figure", f.figure},
                         {"formula", f.formula.english()},
                         {"inputs", std::move(inputs)},
                         {"value", f.value},
                         {"unit", or_null(f.unit)}});
    }
    json["cases"].push_back({{"name", c.name}, {"figures", std::move(figures)}});
  }
  return dumped(json);
}

}  // namespace foretrain::report
