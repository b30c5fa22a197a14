#include "sim/calibration/fit_robust.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>

namespace foretrain {
namespace {

constexpr double kHuber = 1.345;        // 95 % efficiency on normal errors
constexpr double kLeastSpread = 0.002;  // clocks are not read more finely than this
constexpr double kStep = 1e-4;          // of a parameter's logarithm, for derivatives
constexpr int kIterations = 100;

using Vector = Eigen::VectorXd;
using Matrix = Eigen::MatrixXd;

class Problem {
 public:
  Problem(std::span<const FitParameter> parameters, std::span<const double> measured, const Predict& predict)
      : parameters_(parameters), predict_(predict), log_measured_(static_cast<Eigen::Index>(measured.size())) {
    for (std::size_t i = 0; i < measured.size(); ++i) {
      log_measured_[static_cast<Eigen::Index>(i)] = std::log(measured[i]);
    }
  }

  Eigen::Index observations() const { return log_measured_.size(); }
  Eigen::Index unknowns() const { return static_cast<Eigen::Index>(parameters_.size()); }

  Vector start() const {
    Vector x(unknowns());
    for (Eigen::Index j = 0; j < x.size(); ++j) x[j] = std::log(at(j).start);
    return x;
  }
  Vector bounded(Vector x) const {
    for (Eigen::Index j = 0; j < x.size(); ++j) x[j] = std::clamp(x[j], std::log(at(j).min), std::log(at(j).max));
    return x;
  }
  bool at_bound(const Vector& x, Eigen::Index j) const {
    return x[j] <= std::log(at(j).min) + 1e-9 || x[j] >= std::log(at(j).max) - 1e-9;
  }
  Vector log_errors(const Vector& x) const {
    std::vector<double> values(parameters_.size()), predictions(static_cast<std::size_t>(observations()));
    for (Eigen::Index j = 0; j < x.size(); ++j) values[static_cast<std::size_t>(j)] = std::exp(x[j]);
    predict_(values, predictions);
    Vector errors(observations());
    for (Eigen::Index i = 0; i < errors.size(); ++i) {
      errors[i] = std::log(predictions[static_cast<std::size_t>(i)]) - log_measured_[i];
    }
    return errors;
  }
  Matrix jacobian(const Vector& x) const {
    Matrix result(observations(), unknowns());
    for (Eigen::Index j = 0; j < unknowns(); ++j) {
      Vector above = x, below = x;
      above[j] += kStep;
      below[j] -= kStep;
      result.col(j) = (log_errors(above) - log_errors(below)) / (2 * kStep);
    }
    return result;
  }

  // Huber's loss of the errors in units of `scale`, and that of the priors.
  double loss(const Vector& errors, const Vector& x, double scale) const {
    double sum = 0.0;
    for (Eigen::Index i = 0; i < errors.size(); ++i) {
      const double r = std::abs(errors[i]) / scale;
      sum += r <= kHuber ? 0.5 * r * r : kHuber * (r - 0.5 * kHuber);
    }
    for (Eigen::Index j = 0; j < unknowns(); ++j) {
      if (!at(j).prior) continue;
      const double r = (x[j] - std::log(*at(j).prior)) / at(j).spread;
      sum += 0.5 * r * r;
    }
    return sum;
  }

  // The damped normal equations of the reweighted problem at x.
  Vector step(const Vector& errors, const Vector& x, double scale, double damping) const {
    const Matrix j = jacobian(x);
    Vector weights(observations());
    for (Eigen::Index i = 0; i < errors.size(); ++i) {
      const double r = std::abs(errors[i]) / scale;
      weights[i] = (r <= kHuber ? 1.0 : kHuber / r) / (scale * scale);
    }
    Matrix normal = j.transpose() * weights.asDiagonal() * j;
    Vector gradient = j.transpose() * weights.cwiseProduct(errors);
    for (Eigen::Index p = 0; p < unknowns(); ++p) {
      if (!at(p).prior) continue;
      const double weight = 1.0 / (at(p).spread * at(p).spread);
      normal(p, p) += weight;
      gradient[p] += weight * (x[p] - std::log(*at(p).prior));
    }
    for (Eigen::Index p = 0; p < unknowns(); ++p) normal(p, p) = normal(p, p) * (1.0 + damping) + 1e-12;
    return -normal.ldlt().solve(gradient);
  }

 private:
  const FitParameter& at(Eigen::Index j) const { return parameters_[static_cast<std::size_t>(j)]; }

  std::span<const FitParameter> parameters_;
  const Predict& predict_;
  Vector log_measured_;
};

double spread_of(const Vector& errors) {
  std::vector<double> sizes(static_cast<std::size_t>(errors.size()));
  for (Eigen::Index i = 0; i < errors.size(); ++i) sizes[static_cast<std::size_t>(i)] = std::abs(errors[i]);
  return std::max(1.4826 * quantile(std::move(sizes), 0.5), kLeastSpread);
}

}  // namespace

double quantile(std::vector<double> values, double p) {
  if (values.empty()) return 0.0;
  std::sort(values.begin(), values.end());
  const double place = p * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (place - static_cast<double>(below)) * (values[above] - values[below]);
}

RobustFit fit_robust(std::span<const FitParameter> parameters, std::span<const double> measured,
                     const Predict& predict) {
  const Problem problem(parameters, measured, predict);
  Vector x = problem.bounded(problem.start());
  Vector errors = problem.log_errors(x);
  double damping = 1e-3;
  for (int i = 0; i < kIterations; ++i) {
    const double scale = spread_of(errors);
    const Vector next = problem.bounded(x + problem.step(errors, x, scale, damping));
    const Vector next_errors = problem.log_errors(next);
    if (problem.loss(next_errors, next, scale) > problem.loss(errors, x, scale)) {
      damping *= 10;
      if (damping > 1e8) break;
      continue;
    }
    const double moved = (next - x).cwiseAbs().maxCoeff();
    x = next;
    errors = next_errors;
    damping = std::max(damping / 10, 1e-9);
    if (moved < 1e-9) break;
  }

  RobustFit fit;
  for (Eigen::Index j = 0; j < x.size(); ++j) {
    fit.values.push_back(std::exp(x[j]));
    fit.at_bound.push_back(problem.at_bound(x, j));
  }
  fit.log_errors.assign(errors.data(), errors.data() + errors.size());
  fit.scale = spread_of(errors);
  return fit;
}

}  // namespace foretrain
