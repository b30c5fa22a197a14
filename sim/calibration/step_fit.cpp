#include "sim/calibration/step_fit.h"

#include <fmt/format.h>

#include <Eigen/Cholesky>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <string_view>
#include <utility>

#include "sim/base/parallel.h"
#include "sim/scenario/run_notes.h"

namespace foretrain {
namespace {

// Typical spread of a source's runs about a right model: software releases alone differ by 2-8 % (repeated runs and
// container releases of one plan).
constexpr double kSourceSpread = 0.06;
// Beyond this a residual counts linearly (Huber): a run that is 15 % off is not explained by factors of this kind.
constexpr double kLinearBeyond = 0.15;

std::optional<AttentionKernel> flash_kernel(std::string_view name) {
  for (const AttentionKernel kernel : kFlashKernels) {
    if (name == to_string(kernel)) return kernel;
  }
  return std::nullopt;
}

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
  return of.attention[static_cast<std::size_t>(*flash_kernel(f.name))];
}

bool concerns(const FittedFactor& f, const Case& c) {
  if (f.kind == "software") return c.software.fitted_as == f.owner;
  if (c.cluster.gpu.name != f.owner) return false;
  if (f.name == "matmul_8") return c.train.precision == Precision::fp8;
  if (const auto kernel = flash_kernel(f.name)) return c.train.attention == *kernel;
  return true;
}

// Widths: host time depends on the CPU (x2 between machines), fixed costs on the scripts, the class of fusion is known
// to a quarter, sustained rates to a few per cent.
std::vector<FittedFactor> factors_of(const std::vector<StepObservation>& observations) {
  std::map<std::string, int> software, gpus;
  for (const StepObservation& o : observations) {
    ++software[o.subject.software.fitted_as];
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
    for (const AttentionKernel kernel : kFlashKernels) {
      // The first generation of flash kernels has no measurement of its own on any card.
      const double width = kernel == AttentionKernel::flash1 ? 0.15 : 0.08;
      list.push_back({"gpu", name, to_string(kernel), 1.0, width, 0});
    }
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
      simulate_case(o.subject, environment,
                    {.folding = Communicators::Folding::symmetric, .with_advice = false, .with_elasticity = false});
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

Eigen::Index index(std::size_t i) { return static_cast<Eigen::Index>(i); }

Eigen::VectorXd logarithms(const std::vector<FittedFactor>& fitted) {
  Eigen::VectorXd x(index(fitted.size()));
  for (std::size_t j = 0; j < fitted.size(); ++j) x(index(j)) = std::log(fitted[j].value);
  return x;
}

// Three widths are the bound of what is plausible.
Eigen::VectorXd bounded(const std::vector<FittedFactor>& fitted, Eigen::VectorXd x) {
  for (std::size_t j = 0; j < fitted.size(); ++j) {
    x(index(j)) = std::clamp(x(index(j)), -3 * fitted[j].prior_width, 3 * fitted[j].prior_width);
  }
  return x;
}

// Three decimals say all that the data can; what is written is what is used.
void set_logarithms(StepFit& fit, const Eigen::VectorXd& x) {
  for (std::size_t j = 0; j < fit.fitted.size(); ++j) {
    FittedFactor& f = fit.fitted[j];
    f.value = std::round(std::exp(x(index(j))) * 1000.0) / 1000.0;
    slot(fit.factors, f) = f.value;
  }
}

// The logarithms of predicted over measured time of each observation, and how they change with the logarithms of the
// factors; few concern one.
struct Linear {
  std::vector<double> residuals;
  std::vector<std::vector<std::pair<Eigen::Index, double>>> derivatives;
};

Linear linearised(const std::vector<StepObservation>& observations, const Environment& environment, const StepFit& fit,
                  int threads) {
  constexpr double kNudge = 0.02;
  Linear linear{residuals(observations, environment, fit.factors, threads), {}};
  linear.derivatives.resize(observations.size());
  parallel_for(observations.size(), threads, [&](std::size_t i) {
    for (std::size_t j = 0; j < fit.fitted.size(); ++j) {
      if (!concerns(fit.fitted[j], observations[i].subject)) continue;
      StepFactors moved = fit.factors;
      slot(moved, fit.fitted[j]) *= std::exp(kNudge);
      const double change = log_ratio(observations[i], environment, moved) - linear.residuals[i];
      linear.derivatives[i].emplace_back(index(j), change / kNudge);
    }
  });
  return linear;
}

// One step of Gauss-Newton at x with Huber weights; `linear` is of the point `at`. Rows of the source `without` do not
// count.
Eigen::VectorXd step_from(const std::vector<StepObservation>& observations, const std::vector<FittedFactor>& fitted,
                          const Linear& linear, const Eigen::VectorXd& at, const Eigen::VectorXd& x,
                          const std::map<std::string, int>& rows, std::string_view without) {
  const Eigen::Index n = index(fitted.size());
  Eigen::MatrixXd normal = Eigen::MatrixXd::Zero(n, n);
  Eigen::VectorXd gradient = Eigen::VectorXd::Zero(n);
  for (std::size_t i = 0; i < observations.size(); ++i) {
    if (!without.empty() && observations[i].source == without) continue;
    double r = linear.residuals[i];
    for (const auto& [j, d] : linear.derivatives[i]) r += d * (x(j) - at(j));
    const double huber = std::min(1.0, kLinearBeyond / std::max(std::abs(r), 1e-12));
    const double weight = huber / (kSourceSpread * kSourceSpread * rows.at(observations[i].source));
    for (const auto& [j, dj] : linear.derivatives[i]) {
      gradient(j) += weight * dj * r;
      for (const auto& [k, dk] : linear.derivatives[i]) normal(j, k) += weight * dj * dk;
    }
  }
  for (std::size_t j = 0; j < fitted.size(); ++j) {
    const double precision = 1.0 / std::pow(fitted[j].prior_width, 2);
    normal(index(j), index(j)) += precision;
    gradient(index(j)) += precision * x(index(j));
  }
  return -normal.ldlt().solve(gradient);
}

}  // namespace

std::vector<StepObservation> load_observations(const DataFolder& data, Diagnostics& diagnostics) {
  const std::string folder = data.path + "/tests/validation";
  const std::optional<RunNotes> notes = load_run_notes(data, diagnostics);
  if (!notes) return {};
  std::vector<std::string> stems;
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator(folder + "/measured", failed)) {
    const std::string stem = entry.path().stem();
    const bool set_aside = stem.ends_with("-low") || stem.ends_with("-ext");
    if (entry.path().extension() == ".yaml" && !set_aside) stems.push_back(stem);
  }
  if (failed) diagnostics.error({}, message("cannot read {}/measured", folder));
  std::sort(stems.begin(), stems.end());

  std::vector<StepObservation> observations;
  for (const std::string& stem : stems) {
    const auto file = load_measured(fmt::format("{}/measured/{}.yaml", folder, stem), data, *notes, diagnostics);
    if (!file) continue;
    std::vector<StepObservation> of_source;
    for (const MeasuredCase& c : file->cases) {
      if (!c.subject || !c.measured.step_time_s || notes->flags.contains(c.name)) continue;
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
  const std::map<std::string, int> rows = rows_of_sources(observations);
  fit.error_before = mean_error(observations, residuals(observations, environment, {}, threads));
  Eigen::VectorXd x = logarithms(fit.fitted);
  constexpr int kIterations = 5;
  for (int iteration = 0; iteration < kIterations; ++iteration) {
    const Linear linear = linearised(observations, environment, fit, threads);
    x = bounded(fit.fitted, x + step_from(observations, fit.fitted, linear, x, x, rows, {}));
    set_logarithms(fit, x);
  }
  fit.error_after = mean_error(observations, residuals(observations, environment, fit.factors, threads));
  return fit;
}

std::vector<LeftOut> leave_sources_out(const std::vector<StepObservation>& observations, const StepFit& fit,
                                       const Environment& environment, int threads) {
  const std::map<std::string, int> rows = rows_of_sources(observations);
  const Linear linear = linearised(observations, environment, fit, threads);
  const Eigen::VectorXd all = logarithms(fit.fitted);
  std::vector<LeftOut> results;
  for (const auto& [source, count] : rows) {
    StepFit without = fit;
    Eigen::VectorXd x = all;
    constexpr int kIterations = 12;
    for (int i = 0; i < kIterations; ++i) {
      x = bounded(fit.fitted, x + step_from(observations, fit.fitted, linear, all, x, rows, source));
    }
    set_logarithms(without, x);
    std::vector<StepObservation> own;
    for (const StepObservation& o : observations) {
      if (o.source == source) own.push_back(o);
    }
    results.push_back({source, count, mean_error(own, residuals(own, environment, fit.factors, threads)),
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

MeanLeftOut mean_of(const std::vector<LeftOut>& results) {
  MeanLeftOut mean;
  for (const LeftOut& r : results) {
    mean.error_in += r.error_in / static_cast<double>(results.size());
    mean.error_out += r.error_out / static_cast<double>(results.size());
  }
  return mean;
}

std::string to_yaml(const std::vector<LeftOut>& results) {
  const MeanLeftOut mean = mean_of(results);
  std::string text = fmt::format(
      "# Written by `foretrain calibrate --leave-out`; do not edit. Mean error of the step times of each source of\n"
      "# published runs, with the factors of steps.yaml fitted to all sources, and to all but this one.\n"
      "fitted: {:.4f}\nleft_out: {:.4f}\nsources:\n",
      mean.error_in, mean.error_out);
  for (const LeftOut& r : results) {
    text += fmt::format("  {}: {{rows: {}, fitted: {:.4f}, left_out: {:.4f}}}\n", r.source, r.rows, r.error_in,
                        r.error_out);
  }
  return text;
}

std::vector<LeftOut> load_left_out(const DataFolder& data, Diagnostics& diagnostics) {
  const std::string path = data.path + "/hardware/calibrated/leave_out.yaml";
  std::vector<LeftOut> results;
  std::error_code failed;
  if (!std::filesystem::exists(path, failed)) return results;
  const auto document = config::parse_yaml_file(path, diagnostics);
  if (!document) return results;
  constexpr config::Range kError{0, 100};
  config::MapReader file(*document, diagnostics, "leave_out");
  for (const char* total : {"fitted", "left_out"}) file.required_number(total, config::Unit::count, kError);
  const config::Node* sources = file.node("sources");
  if (sources == nullptr || !sources->is_map()) {
    file.error("sources", message("sources must be a map from the names of sources to their errors"));
  } else {
    for (const config::Node::Entry& entry : sources->map()) {
      config::MapReader source(entry.value, diagnostics, entry.key);
      LeftOut result;
      result.source = entry.key;
      result.rows = static_cast<int>(source.required_integer("rows", {1, 1e6}));
      result.error_in = source.required_number("fitted", config::Unit::count, kError);
      result.error_out = source.required_number("left_out", config::Unit::count, kError);
      source.finish();
      results.push_back(result);
    }
  }
  file.finish();
  return results;
}

}  // namespace foretrain
