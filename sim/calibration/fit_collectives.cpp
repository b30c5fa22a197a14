#include "sim/calibration/fit_collectives.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "sim/calibration/fit_robust.h"

namespace foretrain {
namespace {

constexpr double kMebi = 1024.0 * 1024.0, kKibi = 1024.0;

// A constant of the file that runs can tell: its name there, and where it sits.
struct Place {
  std::string name;
  std::function<double&(CollectiveConstants&)> at;
  double unit = 1.0;  // of the file, in that of the struct
};

const std::vector<Place>& places() {
  using C = CollectiveConstants;
  static const std::vector<Place> all = [] {
    std::vector<Place> list = {
        {"bandwidth_protocol.base", [](C& c) -> double& { return c.k0_us; }},
        {"bandwidth_protocol.hop_nvlink", [](C& c) -> double& { return c.k_nvlink_us; }},
        {"bandwidth_protocol.hop_pcie", [](C& c) -> double& { return c.k_pcie_us; }},
        {"bandwidth_protocol.hop_host_memory", [](C& c) -> double& { return c.k_host_us; }},
        {"bandwidth_protocol.s1_kib_per_rank", [](C& c) -> double& { return c.s1_per_rank.value; }, kKibi},
        {"bandwidth_protocol.s1_kib_per_rank_host_memory", [](C& c) -> double& { return c.s1_per_rank_host.value; },
         kKibi},
        {"bandwidth_protocol.s1_kib_per_rank_network", [](C& c) -> double& { return c.s1_per_rank_network.value; },
         kKibi},
        {"nvls.base_us", [](C& c) -> double& { return c.nvls_base_us; }},
        {"nvls.ramp_us", [](C& c) -> double& { return c.nvls_ramp_us; }},
        {"nvls.s1_mib", [](C& c) -> double& { return c.nvls_s1.value; }, kMebi},
    };
    const std::vector<std::pair<const char*, NetworkLatency C::*>> networks = {
        {"infiniband", &C::infiniband},       {"rdma_staged", &C::rdma_staged}, {"roce", &C::roce},
        {"efa_volta", &C::efa_volta},         {"efa_ampere", &C::efa_ampere},   {"efa_hopper", &C::efa_hopper},
        {"efa_blackwell", &C::efa_blackwell}, {"ethernet", &C::ethernet}};
    for (const auto& [name, network] : networks) {
      const std::string key = std::string("networks.") + name;
      list.push_back({key + ".latency", [n = network](C& c) -> double& { return (c.*n).latency_us; }});
      list.push_back({key + ".hop", [n = network](C& c) -> double& { return (c.*n).hop_us; }});
    }
    return list;
  }();
  return all;
}

double driven(double seconds, const CollectiveRun& run) {
  if (run.driver == CollectiveRun::Driver::thread) return std::max(seconds, 4.6e-6 * run.ranks);
  if (run.driver == CollectiveRun::Driver::torch) return std::max(seconds + 9e-6, 47e-6);
  return seconds;
}

void predict(std::span<const CollectiveRun> runs, const CollectiveConstants& constants, std::span<double> out) {
  std::size_t i = 0;
  for (const CollectiveRun& run : runs) {
    for (const CollectiveRun::Point& point : run.points) {
      const CollectiveCost cost = collective_cost(run.op, Bytes{point.bytes}, run.shape, *run.cluster, constants);
      out[i++] = driven(cost.idle_time().value, run);
    }
  }
}

struct Error {
  double mean = 0.0, median = 0.0;
};
Error error_of(std::span<const double> predicted, std::span<const double> measured) {
  Error error;
  std::vector<double> sizes;
  for (std::size_t i = 0; i < measured.size(); ++i) sizes.push_back(std::abs(predicted[i] / measured[i] - 1.0));
  for (const double s : sizes) error.mean += s / static_cast<double>(sizes.size());
  error.median = quantile(std::move(sizes), 0.5);
  return error;
}

}  // namespace

CollectiveFit fit_collectives(std::span<const CollectiveRun> runs, const CollectiveConstants& constants) {
  CollectiveFit fit;
  std::vector<double> measured;
  for (const CollectiveRun& run : runs) {
    if (run.ranks > 1) ++fit.runs;
    for (const CollectiveRun::Point& point : run.points) measured.push_back(point.seconds);
  }
  fit.points = measured.size();
  if (measured.empty()) return fit;

  const auto with = [&](std::span<const double> values) {
    CollectiveConstants changed = constants;
    for (std::size_t j = 0; j < places().size(); ++j) places()[j].at(changed) = values[j];
    return changed;
  };
  std::vector<FitParameter> parameters;
  std::vector<double> values;
  for (const Place& place : places()) {
    CollectiveConstants copy = constants;
    values.push_back(std::max(place.at(copy), 1e-3));
    const double prior = values.back();
    parameters.push_back({.start = prior, .min = prior / 5, .max = prior * 5, .prior = prior, .spread = 0.26});
  }
  std::vector<double> now(measured.size()), moved(measured.size());
  predict(runs, constants, now);
  const RobustFit robust = fit_robust(
      parameters, measured, [&](std::span<const double> x, std::span<double> out) { predict(runs, with(x), out); });
  std::vector<double> fitted(measured.size());
  predict(runs, with(robust.values), fitted);
  const Error before = error_of(now, measured), after = error_of(fitted, measured);
  fit.mean_error = before.mean;
  fit.median_error = before.median;
  fit.fitted_mean_error = after.mean;
  fit.fitted_median_error = after.median;

  for (std::size_t j = 0; j < places().size(); ++j) {
    std::vector<double> other = values;
    other[j] *= 1.5;
    predict(runs, with(other), moved);
    CollectiveConstant c{places()[j].name, values[j] / places()[j].unit, robust.values[j] / places()[j].unit, 0};
    for (std::size_t i = 0; i < measured.size(); ++i) c.points += std::abs(moved[i] / now[i] - 1.0) > 0.02 ? 1 : 0;
    fit.constants.push_back(c);
  }
  return fit;
}

}  // namespace foretrain
