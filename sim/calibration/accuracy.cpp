#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "sim/calibration/fit_robust.h"
#include "sim/calibration/validate.h"

namespace foretrain {
namespace {

std::optional<double> mean(const std::vector<double>& values) {
  if (values.empty()) return std::nullopt;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

std::optional<double> share(std::size_t part, std::size_t whole) {
  if (whole == 0) return std::nullopt;
  return static_cast<double>(part) / static_cast<double>(whole);
}

std::optional<double> known_quantile(std::vector<double> values, double share) {
  if (values.empty()) return std::nullopt;
  return quantile(std::move(values), share);
}

void add_step_times(Accuracy& result, std::span<const Comparison> comparisons) {
  std::vector<double> errors, absolute;
  for (const Comparison& c : comparisons) {
    if (const auto error = c.error()) {
      errors.push_back(*error);
      absolute.push_back(std::abs(*error));
    }
  }
  result.step_times = errors.size();
  result.mape = mean(absolute);
  result.median_ape = known_quantile(absolute, 0.5);
  result.p90_ape = known_quantile(absolute, 0.9);
  result.bias = mean(errors);
}

void add_memory(Accuracy& result, std::span<const Comparison> comparisons) {
  std::vector<double> absolute;
  std::size_t judged = 0, right = 0, found = 0;
  for (const Comparison& c : comparisons) {
    if (const auto error = c.memory_error()) absolute.push_back(std::abs(*error));
    if (!c.predicted_oom) continue;
    ++judged;
    right += *c.predicted_oom == c.measured_oom;
    result.out_of_memory += c.measured_oom;
    found += *c.predicted_oom && c.measured_oom;
  }
  result.memories = absolute.size();
  result.memory_mape = mean(absolute);
  result.oom_accuracy = share(right, judged);
  result.oom_found = share(found, result.out_of_memory);
}

void add_order(Accuracy& result, std::span<const Comparison> comparisons) {
  constexpr double kTelling = 1.02;  // nearer measurements are within their own scatter
  std::map<std::pair<std::size_t, double>, std::vector<const Comparison*>> groups;
  for (const Comparison& c : comparisons) {
    if (c.error()) groups[{c.file, c.tokens_per_step}].push_back(&c);
  }
  std::size_t right = 0, same_model_right = 0;
  for (const auto& [key, group] : groups) {
    for (std::size_t i = 0; i < group.size(); ++i) {
      for (std::size_t j = i + 1; j < group.size(); ++j) {
        const Comparison *fast = group[i], *slow = group[j];
        if (*fast->measured_step_time_s > *slow->measured_step_time_s) std::swap(fast, slow);
        if (*slow->measured_step_time_s <= kTelling * *fast->measured_step_time_s) continue;
        const bool same_order = *fast->predicted_step_time_s < *slow->predicted_step_time_s;
        const bool same_model = fast->model == slow->model;
        ++result.pairs;
        right += same_order;
        result.same_model_pairs += same_model;
        same_model_right += same_model && same_order;
      }
    }
  }
  result.pairwise_order_accuracy = share(right, result.pairs);
  result.same_model_order_accuracy = share(same_model_right, result.same_model_pairs);
}

}  // namespace

std::optional<double> Comparison::error() const {
  if (!measured_step_time_s || !predicted_step_time_s) return std::nullopt;
  return *predicted_step_time_s / *measured_step_time_s - 1.0;
}

std::optional<double> Comparison::memory_error() const {
  if (!measured_memory || !predicted_memory) return std::nullopt;
  return *predicted_memory / *measured_memory - 1.0;
}

Accuracy accuracy(std::span<const Comparison> comparisons) {
  Accuracy result;
  result.cases = comparisons.size();
  for (const Comparison& c : comparisons) result.failures += !c.failure.empty();
  add_step_times(result, comparisons);
  add_memory(result, comparisons);
  add_order(result, comparisons);
  return result;
}

}  // namespace foretrain
