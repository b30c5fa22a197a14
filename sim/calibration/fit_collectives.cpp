#include "sim/calibration/fit_collectives.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sim/calibration/collective_places.h"
#include "sim/calibration/fit_robust.h"

namespace foretrain {
namespace {

constexpr double kPriorSpread = 0.26;  // a factor of 1.3 either way
constexpr double kProbe = 0.99;        // a rate is lowered to this to see whether it holds a machine up
constexpr double kFelt = 0.02;         // a point feels a constant if two thirds of it move its time by so much
constexpr double kTwoThirds = 1.0 / 1.5;

double driven(double seconds, const CollectiveRun& run) {
  if (run.driver == CollectiveRun::Driver::thread) return std::max(seconds, 4.6e-6 * run.ranks);
  if (run.driver == CollectiveRun::Driver::torch) return std::max(seconds + 9e-6, 47e-6);
  return seconds;
}

bool is_rate(const CollectivePlace& place) { return place.name.starts_with("links."); }

// How much of a constant's change a machine's rates follow (exponents: 0 or 1, between them where links tie).
struct Sensitivity {
  std::size_t place = 0;
  double intra = 0.0, network = 0.0;
};

// A run and what it takes to predict it again for other constants.
struct PreparedRun {
  const CollectiveRun* run = nullptr;
  std::vector<Sensitivity> sensitivities;
  std::vector<char> feels;  // by place: whether any change of it can be felt
};

GroupShape scaled_shape(const PreparedRun& prepared, std::span<const double> values, std::span<const double> given) {
  GroupShape shape = prepared.run->shape;
  for (const Sensitivity& s : prepared.sensitivities) {
    const double ratio = values[s.place] / given[s.place];
    shape.ring_intra *= std::pow(ratio, s.intra);
    shape.ring_network *= std::pow(ratio, s.network);
  }
  return shape;
}

void predict_run(const CollectiveRun& run, const GroupShape& shape, const Cluster& cluster,
                 const CollectiveConstants& constants, std::span<double> times) {
  for (std::size_t i = 0; i < run.points.size(); ++i) {
    const CollectiveCost cost = collective_cost(run.op, Bytes{run.points[i].bytes}, shape, cluster, constants);
    times[i] = driven(cost.idle_time().value, run);
  }
}

// The constants under their places, and their values as given.
struct Unknowns {
  explicit Unknowns(const CollectiveModel& given_model) : model(given_model), places(collective_places(given_model)) {
    CollectiveModel copy = model;
    for (const CollectivePlace& place : places) given.push_back(place.at(copy));
  }
  CollectiveModel with(std::span<const double> values) const {
    CollectiveModel changed = model;
    for (std::size_t p = 0; p < places.size(); ++p) places[p].at(changed) = values[p];
    return changed;
  }

  CollectiveModel model;
  std::vector<CollectivePlace> places;
  std::vector<double> given;
};

PreparedRun prepared(const CollectiveRun& run, const Unknowns& unknowns) {
  PreparedRun result{&run, {}, std::vector<char>(unknowns.places.size(), 0)};
  const auto follows = [](BytesPerSecond lowered, BytesPerSecond whole) {
    return std::isfinite(whole.value) ? std::log(lowered / whole) / std::log(kProbe) : 0.0;
  };
  for (std::size_t p = 0; p < unknowns.places.size(); ++p) {
    if (!is_rate(unknowns.places[p])) continue;
    CollectiveModel lower = unknowns.model;
    unknowns.places[p].at(lower) *= kProbe;
    const GroupShape shape = shape_of(Cluster(run.cluster->description(), lower.rates), run.gpus);
    const Sensitivity s{p, follows(shape.ring_intra, run.shape.ring_intra),
                        follows(shape.ring_network, run.shape.ring_network)};
    if (s.intra > 0.01 || s.network > 0.01) result.sensitivities.push_back(s);
  }
  // Changes of several sizes, for the choices between algorithms.
  std::vector<double> whole(run.points.size()), moved(run.points.size());
  predict_run(run, run.shape, *run.cluster, unknowns.model.constants, whole);
  for (std::size_t p = 0; p < unknowns.places.size(); ++p) {
    for (const double factor : {0.3, 0.9, 1.1, 3.0}) {
      std::vector<double> values = unknowns.given;
      values[p] *= factor;
      predict_run(run, scaled_shape(result, values, unknowns.given), *run.cluster, unknowns.with(values).constants,
                  moved);
      result.feels[p] |= moved != whole;
    }
  }
  return result;
}

// Predicts the points of runs for changed constants. A change of few constants is followed only by the runs that feel
// them, which is what a fit asks for most of the time.
class Predictor {
 public:
  Predictor(std::span<const PreparedRun> runs, const Unknowns& unknowns)
      : runs_(runs), unknowns_(unknowns), now_(unknowns.given) {
    std::size_t first = 0;
    for (const PreparedRun& run : runs_) {
      first_.push_back(first);
      first += run.run->points.size();
    }
    times_.resize(first);
    for (std::size_t r = 0; r < runs_.size(); ++r) refresh(r, unknowns_.model.constants);
  }

  std::size_t first_point(std::size_t run) const { return first_[run]; }

  std::span<const double> predict(std::span<const double> values) {
    std::vector<char> stale(runs_.size(), 0);
    for (std::size_t p = 0; p < values.size(); ++p) {
      if (values[p] == now_[p]) continue;
      for (std::size_t r = 0; r < runs_.size(); ++r) stale[r] |= runs_[r].feels[p];
      now_[p] = values[p];
    }
    const CollectiveModel model = unknowns_.with(now_);
    for (std::size_t r = 0; r < runs_.size(); ++r) {
      if (stale[r]) refresh(r, model.constants);
    }
    return times_;
  }

 private:
  void refresh(std::size_t r, const CollectiveConstants& constants) {
    const CollectiveRun& run = *runs_[r].run;
    predict_run(run, scaled_shape(runs_[r], now_, unknowns_.given), *run.cluster, constants,
                std::span(times_).subspan(first_[r], run.points.size()));
  }

  std::span<const PreparedRun> runs_;
  const Unknowns& unknowns_;
  std::vector<double> now_, times_;
  std::vector<std::size_t> first_;
};

std::vector<double> measured_of(std::span<const CollectiveRun> runs) {
  std::vector<double> measured;
  for (const CollectiveRun& run : runs) {
    for (const CollectiveRun::Point& point : run.points) measured.push_back(point.seconds);
  }
  return measured;
}

// With machines built from the model's own rates.
std::vector<double> exact_prediction(std::span<const CollectiveRun> runs, const CollectiveModel& model) {
  std::vector<double> times;
  for (const CollectiveRun& run : runs) {
    const Cluster cluster(run.cluster->description(), model.rates);
    const std::size_t first = times.size();
    times.resize(first + run.points.size());
    predict_run(run, shape_of(cluster, run.gpus), cluster, model.constants, std::span(times).subspan(first));
  }
  return times;
}

std::vector<double> sizes_of_errors(std::span<const double> predicted, std::span<const double> measured) {
  std::vector<double> sizes;
  for (std::size_t i = 0; i < measured.size(); ++i) sizes.push_back(std::abs(predicted[i] / measured[i] - 1.0));
  return sizes;
}

double mean_size(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) /
         static_cast<double>(std::max<std::size_t>(values.size(), 1));
}

CollectiveError error_of(std::vector<double> sizes) { return {mean_size(sizes), quantile(sizes, 0.5)}; }

std::vector<FitParameter> parameters_of(const Unknowns& unknowns, std::span<const double> start,
                                        const ConstantRules& rules) {
  std::vector<FitParameter> parameters;
  for (std::size_t p = 0; p < unknowns.places.size(); ++p) {
    const CollectivePlace& place = unknowns.places[p];
    const double given = unknowns.given[p];
    const ConstantRule* rule = rules.find(place.name);
    const double min = std::min(given, rule != nullptr ? rule->min * place.unit : given);
    const double max = std::max(given, rule != nullptr ? rule->max * place.unit : given);
    parameters.push_back(
        {.start = std::clamp(start[p], min, max), .min = min, .max = max, .prior = given, .spread = kPriorSpread});
  }
  return parameters;
}

// Fits the constants to runs; `start` is where to begin.
RobustFit fit_runs(std::span<const PreparedRun> runs, const Unknowns& unknowns, std::span<const double> start,
                   const ConstantRules& rules) {
  Predictor predictor(runs, unknowns);
  std::vector<double> measured;
  for (const PreparedRun& run : runs) {
    for (const CollectiveRun::Point& point : run.run->points) measured.push_back(point.seconds);
  }
  return fit_robust(parameters_of(unknowns, start, rules), measured,
                    [&](std::span<const double> x, std::span<double> out) {
                      const std::span<const double> times = predictor.predict(x);
                      std::copy(times.begin(), times.end(), out.begin());
                    });
}

// The points and the classes of machines that feel each constant.
void count_points(std::span<const PreparedRun> runs, const Unknowns& unknowns, std::vector<ConstantFit>& constants) {
  Predictor predictor(runs, unknowns);
  const std::span<const double> view = predictor.predict(unknowns.given);
  const std::vector<double> whole(view.begin(), view.end());
  for (std::size_t p = 0; p < constants.size(); ++p) {
    std::vector<double> values = unknowns.given;
    values[p] *= kTwoThirds;
    const std::span<const double> moved = predictor.predict(values);
    for (std::size_t r = 0; r < runs.size(); ++r) {
      const std::size_t first = predictor.first_point(r), last = first + runs[r].run->points.size();
      std::size_t felt = 0;
      for (std::size_t i = first; i < last; ++i) felt += std::abs(moved[i] / whole[i] - 1.0) > kFelt ? 1 : 0;
      constants[p].points += felt;
      std::vector<std::string>& systems = constants[p].systems;
      const std::string& name = runs[r].run->name;
      if (felt > 0 && std::find(systems.begin(), systems.end(), name) == systems.end()) systems.push_back(name);
    }
  }
}

std::vector<PreparedRun> all_prepared(std::span<const CollectiveRun> runs, const Unknowns& unknowns) {
  std::vector<PreparedRun> result;
  for (const CollectiveRun& run : runs) result.push_back(prepared(run, unknowns));
  return result;
}

void describe_classes(std::span<const CollectiveRun> runs, std::span<const double> given,
                      std::span<const double> fitted, CollectiveFit& fit) {
  std::size_t at = 0;
  for (const CollectiveRun& run : runs) {
    auto found =
        std::find_if(fit.classes.begin(), fit.classes.end(), [&](const auto& c) { return c.name == run.name; });
    if (found == fit.classes.end()) found = fit.classes.insert(found, {run.name, 0, 0, 0.0, 0.0, 0.0});
    ++found->runs;
    found->points += run.points.size();
    for (std::size_t i = 0; i < run.points.size(); ++i, ++at) {
      found->given += given[at];
      found->fitted += fitted[at];
    }
  }
  for (CollectiveFit::Class& c : fit.classes) {
    c.given /= static_cast<double>(c.points);
    c.fitted /= static_cast<double>(c.points);
  }
}

}  // namespace

CollectiveModel calibrated_model(const CollectiveModel& given, const CollectiveFit& fit, const ConstantRules& rules) {
  CollectiveModel model = given;
  for (const CollectivePlace& place : collective_places(given)) {
    const ConstantRule* rule = rules.find(place.name);
    const auto found = std::find_if(fit.constants.begin(), fit.constants.end(),
                                    [&](const ConstantFit& c) { return c.name == place.name; });
    if (rule == nullptr || !rule->take_fit || found == fit.constants.end() || found->points == 0) continue;
    place.at(model) = found->fitted * place.unit;
  }
  return model;
}

CollectiveFit fit_collectives(std::span<const CollectiveRun> runs, const CollectiveModel& given,
                              const ConstantRules& rules) {
  CollectiveFit fit;
  const std::vector<double> measured = measured_of(runs);
  for (const CollectiveRun& run : runs) fit.runs += run.ranks > 1 ? 1 : 0;
  fit.points = measured.size();
  if (measured.empty()) return fit;

  const Unknowns unknowns(given);
  const std::vector<PreparedRun> all = all_prepared(runs, unknowns);
  const RobustFit robust = fit_runs(all, unknowns, unknowns.given, rules);
  for (std::size_t p = 0; p < unknowns.places.size(); ++p) {
    const CollectivePlace& place = unknowns.places[p];
    fit.constants.push_back({place.name, robust.values[p] / place.unit, 0, {}, robust.at_bound[p], ""});
  }
  count_points(all, unknowns, fit.constants);

  const std::vector<double> before = sizes_of_errors(exact_prediction(runs, given), measured);
  const std::vector<double> after = sizes_of_errors(exact_prediction(runs, unknowns.with(robust.values)), measured);
  fit.given = error_of(before);
  fit.fitted = error_of(after);
  fit.written = error_of(sizes_of_errors(exact_prediction(runs, calibrated_model(given, fit, rules)), measured));
  describe_classes(runs, before, after, fit);
  return fit;
}

void leave_out_classes(std::span<const CollectiveRun> runs, const CollectiveModel& given, const ConstantRules& rules,
                       CollectiveFit& fit) {
  const Unknowns unknowns(given);
  const std::vector<PreparedRun> all = all_prepared(runs, unknowns);
  std::vector<double> start;
  for (std::size_t p = 0; p < unknowns.places.size(); ++p) {
    start.push_back(fit.constants[p].fitted * unknowns.places[p].unit);
  }
  std::vector<double> errors;
  for (CollectiveFit::Class& left : fit.classes) {
    std::vector<PreparedRun> seen = all;
    std::erase_if(seen, [&](const PreparedRun& run) { return run.run->name == left.name; });
    std::vector<CollectiveRun> unseen(runs.begin(), runs.end());
    std::erase_if(unseen, [&](const CollectiveRun& run) { return run.name != left.name; });
    const CollectiveModel model = seen.empty() ? given : unknowns.with(fit_runs(seen, unknowns, start, rules).values);
    const std::vector<double> sizes = sizes_of_errors(exact_prediction(unseen, model), measured_of(unseen));
    left.left_out = mean_size(sizes);
    errors.insert(errors.end(), sizes.begin(), sizes.end());
  }
  fit.left_out = error_of(errors);
}

}  // namespace foretrain
