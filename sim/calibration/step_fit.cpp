#include "sim/calibration/step_fit.h"

#include <fmt/format.h>

#include <Eigen/Cholesky>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>

#include "sim/base/parallel.h"

namespace foretrain {
namespace {

// Typical spread of a source's runs about a right model: software releases alone differ by 2-8 % (repeated runs and
// container releases of one plan).
constexpr double kSourceSpread = 0.06;
// Beyond this a residual counts linearly (Huber): a run that is 15 % off is not explained by factors of this kind.
constexpr double kHuber = 0.15;

// A factor's place in StepFactors.
double& slot(StepFactors& factors, const FittedFactor& f) {
  if (f.kind == "software") {
    StepFactors::OfSoftware& of = factors.software[f.owner];
    if (f.name == "elementwise") return of.elementwise;
    if (f.name == "host") return of.host;
    return of.step_overhead;
  }
  StepFactors::OfGpu& of = factors.gpus[f.owner];
  if (f.name == "matmul_16") return of.matmul_16;
  if (f.name == "matmul_8") return of.matmul_8;
  return of.attention;
}

bool concerns(const FittedFactor& f, const Case& c) {
  if (f.kind == "software") return c.software.name == f.owner;
  if (c.cluster.gpu.name != f.owner) return false;
  if (f.name == "matmul_8") return c.train.precision == Precision::fp8;
  if (f.name == "attention") return c.train.attention != AttentionKernel::standard;
  return true;
}

// Widths: host time depends on the CPU (x2 between machines), fixed costs on the scripts, the class of fusion is known
// to a quarter, sustained rates to a few per cent.
std::vector<FittedFactor> factors_of(const std::vector<StepObservation>& observations) {
  std::map<std::string, int> software, gpus;
  for (const StepObservation& o : observations) {
    ++software[o.subject.software.name];
    ++gpus[o.subject.cluster.gpu.name];
  }
  std::vector<FittedFactor> list;
  for (const auto& [name, rows] : software) {
    list.push_back({"software", name, "elementwise", 1.0, 0.15, 0});
    list.push_back({"software", name, "host", 1.0, 0.2, 0});
    list.push_back({"software", name, "step_overhead", 1.0, 0.4, 0});
  }
  for (const auto& [name, rows] : gpus) {
    list.push_back({"gpu", name, "matmul_16", 1.0, 0.05, 0});
    list.push_back({"gpu", name, "matmul_8", 1.0, 0.05, 0});
    list.push_back({"gpu", name, "attention", 1.0, 0.08, 0});
  }
  for (FittedFactor& f : list) {
    f.rows = static_cast<int>(std::count_if(observations.begin(), observations.end(),
                                            [&](const StepObservation& o) { return concerns(f, o.subject); }));
  }
  std::erase_if(list, [](const FittedFactor& f) { return f.rows == 0; });
  return list;
}

double log_ratio(const StepObservation& o, Environment environment, const StepFactors& factors) {
  environment.factors = factors;
  const CaseReport report =
      simulate_case(o.subject, environment, {.folding = Communicators::Folding::symmetric, .with_advice = false});
  return std::log(report.step_time.seconds() / o.measured_s);
}

std::vector<double> residuals(const std::vector<StepObservation>& observations, const Environment& environment,
                              const StepFactors& factors, int threads) {
  std::vector<double> r(observations.size());
  parallel_for(observations.size(), threads,
               [&](std::size_t i) { r[i] = log_ratio(observations[i], environment, factors); });
  return r;
}

std::map<std::string, int> rows_of_sources(const std::vector<StepObservation>& observations) {
  std::map<std::string, int> rows;
  for (const StepObservation& o : observations) ++rows[o.source];
  return rows;
}

double mean_error(const std::vector<StepObservation>& observations, const std::vector<double>& r) {
  std::map<std::string, std::pair<double, int>> by_source;
  for (std::size_t i = 0; i < r.size(); ++i) {
    auto& [sum, count] = by_source[observations[i].source];
    sum += std::abs(std::expm1(r[i]));
    ++count;
  }
  double mean = 0;
  for (const auto& [source, of] : by_source) mean += of.first / of.second / static_cast<double>(by_source.size());
  return mean;
}

}  // namespace

std::vector<StepObservation> load_observations(const DataFolder& data, Diagnostics& diagnostics) {
  const std::string folder = data.path + "/tests/validation";
  std::set<std::string> flagged;
  if (const auto document = config::parse_yaml_file(folder + "/flags.yaml", diagnostics)) {
    const config::Node* flags = document->find("flags");
    if (flags != nullptr && flags->is_map()) {
      for (const auto& entry : flags->map()) flagged.insert(entry.key);
    }
  }
  std::vector<std::string> stems;
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator(folder + "/measured", failed)) {
    const std::string stem = entry.path().stem();
    const bool set_aside = stem.ends_with("-low") || stem.ends_with("-ext");
    if (entry.path().extension() == ".yaml" && !set_aside) stems.push_back(stem);
  }
  if (failed) diagnostics.error({}, fmt::format("cannot read {}/measured", folder));
  std::sort(stems.begin(), stems.end());

  std::vector<StepObservation> observations;
  for (const std::string& stem : stems) {
    const auto file = load_measured(fmt::format("{}/measured/{}.yaml", folder, stem), data, diagnostics);
    if (!file) continue;
    std::vector<StepObservation> of_source;
    for (const MeasuredCase& c : file->cases) {
      if (!c.subject || !c.measured.step_time_s || flagged.contains(c.name)) continue;
      of_source.push_back({*c.subject, *c.measured.step_time_s, stem});
    }
    constexpr std::size_t kMost = 128;
    const std::size_t chosen = std::min(kMost, of_source.size());
    for (std::size_t i = 0; i < chosen; ++i) observations.push_back(of_source[i * of_source.size() / chosen]);
  }
  return observations;
}

StepFit fit_step_factors(const std::vector<StepObservation>& observations, const Environment& environment,
                         int threads) {
  StepFit fit;
  fit.fitted = factors_of(observations);
  const auto n = static_cast<Eigen::Index>(fit.fitted.size());
  const std::map<std::string, int> rows = rows_of_sources(observations);
  std::vector<double> r = residuals(observations, environment, {}, threads);
  fit.error_before = mean_error(observations, r);

  Eigen::VectorXd x = Eigen::VectorXd::Zero(n);  // logarithms of the factors
  constexpr int kIterations = 5;
  constexpr double kStep = 0.02;
  for (int iteration = 0; iteration < kIterations; ++iteration) {
    Eigen::MatrixXd normal = Eigen::MatrixXd::Zero(n, n);
    Eigen::VectorXd gradient = Eigen::VectorXd::Zero(n);
    // One row of derivatives an observation; few factors concern it.
    std::vector<std::vector<std::pair<Eigen::Index, double>>> derivatives(observations.size());
    parallel_for(observations.size(), threads, [&](std::size_t i) {
      for (Eigen::Index j = 0; j < n; ++j) {
        const FittedFactor& f = fit.fitted[static_cast<std::size_t>(j)];
        if (!concerns(f, observations[i].subject)) continue;
        StepFactors moved = fit.factors;
        slot(moved, f) *= std::exp(kStep);
        derivatives[i].emplace_back(j, (log_ratio(observations[i], environment, moved) - r[i]) / kStep);
      }
    });
    for (std::size_t i = 0; i < observations.size(); ++i) {
      const double huber = std::min(1.0, kHuber / std::max(std::abs(r[i]), 1e-12));
      const double weight = huber / (kSourceSpread * kSourceSpread * rows.at(observations[i].source));
      for (const auto& [j, dj] : derivatives[i]) {
        gradient(j) += weight * dj * r[i];
        for (const auto& [k, dk] : derivatives[i]) normal(j, k) += weight * dj * dk;
      }
    }
    for (Eigen::Index j = 0; j < n; ++j) {
      const double precision = 1.0 / std::pow(fit.fitted[static_cast<std::size_t>(j)].prior_width, 2);
      normal(j, j) += precision;
      gradient(j) += precision * x(j);
    }
    x -= normal.ldlt().solve(gradient);
    for (Eigen::Index j = 0; j < n; ++j) {
      FittedFactor& f = fit.fitted[static_cast<std::size_t>(j)];
      // Three widths are the bound of what is plausible.
      x(j) = std::clamp(x(j), -3 * f.prior_width, 3 * f.prior_width);
      // Three decimals say all that the data can; what is written is what is used.
      f.value = std::round(std::exp(x(j)) * 1000.0) / 1000.0;
      slot(fit.factors, f) = f.value;
    }
    r = residuals(observations, environment, fit.factors, threads);
  }
  fit.error_after = mean_error(observations, r);
  return fit;
}

std::vector<LeftOut> leave_sources_out(const std::vector<StepObservation>& observations, const Environment& environment,
                                       int threads) {
  const StepFit all = fit_step_factors(observations, environment, threads);
  std::vector<LeftOut> results;
  for (const auto& [source, rows] : rows_of_sources(observations)) {
    std::vector<StepObservation> others, own;
    for (const StepObservation& o : observations) (o.source == source ? own : others).push_back(o);
    const StepFit without = fit_step_factors(others, environment, threads);
    results.push_back({source, rows, mean_error(own, residuals(own, environment, all.factors, threads)),
                       mean_error(own, residuals(own, environment, without.factors, threads))});
  }
  return results;
}

std::string to_yaml(const StepFit& fit, const std::vector<StepObservation>& observations) {
  std::string text =
      "# Written by `foretrain calibrate --software`; do not edit. What whole published steps make of the figures of "
      "kernels\n"
      "# and framework profiles: factors on elementwise bytes, host time and fixed cost of a framework, and on the\n"
      "# sustained matrix and attention rates of a GPU. 1 where runs say nothing; rows: runs that concern the entry.\n";
  text += fmt::format("source: {} published runs of {} sources in tests/validation/measured, flagged rows left out\n",
                      observations.size(), rows_of_sources(observations).size());
  for (const char* kind : {"software", "gpu"}) {
    text += kind == std::string("gpu") ? "gpus:\n" : "software:\n";
    std::map<std::string, std::pair<std::string, int>> owners;
    for (const FittedFactor& f : fit.fitted) {
      if (f.kind != kind) continue;
      auto& [factors, rows] = owners[f.owner];
      factors += fmt::format("{}: {:.3f}, ", f.name, f.value);
      rows = std::max(rows, f.rows);
    }
    for (const auto& [owner, of] : owners) text += fmt::format("  {}: {{{}rows: {}}}\n", owner, of.first, of.second);
  }
  return text;
}

}  // namespace foretrain
