#include "sim/calibration/confidence.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace foretrain {
namespace {

// Terms of the distance. One doubling of a size weighs a tenth, so that a factor of a thousand is as far as another
// GPU generation or framework. Without any one of them nine tenths of the runs left out are still covered, with ranges
// of the same width within a tenth (study of the published runs in tests/validation/measured).
constexpr double kSameArchitecture = 0.5, kOtherArchitecture = 1.5;
constexpr double kSameFamily = 0.5, kOtherFramework = 1.0;
constexpr double kOneNodeOrSeveral = 0.5, kOtherNetwork = 0.25, kOtherLinks = 0.5;
constexpr double kDoubling = 0.1;   // of GPUs, parameters, sequence length
constexpr double kPlanKind = 0.25;  // tensor, pipeline or context parallelism in one of the two only
constexpr double kFullyShardedOrNot = 0.5;
constexpr double kOtherPrecision = 0.5;  // 8, 16 or 32 bit
constexpr double kRecompute = 0.25, kStandardAttention = 0.25;

// Neighbours of a run: weights fall by e within this distance.
constexpr double kReach = 1.0;
constexpr std::size_t kRunsOfSource = 30, kSources = 12;

constexpr double kCovered = 0.90, kLowTail = 0.05, kHighTail = 0.95;

double doublings(std::int64_t a, std::int64_t b) {
  return std::abs(std::log2(static_cast<double>(a) / static_cast<double>(b)));
}

double machine_distance(const RunTraits& a, const RunTraits& b) {
  double d = 0;
  if (a.gpu != b.gpu) d += a.architecture == b.architecture ? kSameArchitecture : kOtherArchitecture;
  if (a.intra != b.intra) d += kOtherLinks;
  if ((a.nodes > 1) != (b.nodes > 1)) {
    d += kOneNodeOrSeveral;
  } else if (a.network != b.network) {
    d += kOtherNetwork;
  }
  return d + kDoubling * doublings(a.gpus, b.gpus);
}

double work_distance(const RunTraits& a, const RunTraits& b) {
  double d = kDoubling * (doublings(a.parameters, b.parameters) + doublings(a.seq_len, b.seq_len));
  if (a.software != b.software) d += a.family == b.family ? kSameFamily : kOtherFramework;
  if (bits(a) != bits(b)) d += kOtherPrecision;
  if ((a.attention == "standard") != (b.attention == "standard")) d += kStandardAttention;
  return d;
}

double plan_distance(const RunTraits& a, const RunTraits& b) {
  double d = 0;
  for (int RunTraits::*ways : {&RunTraits::tp, &RunTraits::pp, &RunTraits::cp}) {
    if ((a.*ways > 1) != (b.*ways > 1)) d += kPlanKind;
  }
  if ((a.zero == 3) != (b.zero == 3)) d += kFullyShardedOrNot;
  if ((a.recompute == "full") != (b.recompute == "full")) d += kRecompute;
  return d;
}

struct Near {
  double distance = 0;
  std::size_t index = 0;  // of the residual
  auto operator<=>(const Near&) const = default;
};

// The nearest runs of every source, nearest first; the sources by their nearest run.
std::vector<std::vector<Near>> nearest_by_source(const RunTraits& run, std::span<const Residual> residuals,
                                                 std::string_view without_source) {
  std::vector<std::vector<Near>> sources;
  for (std::size_t begin = 0, end = 0; begin < residuals.size(); begin = end) {
    while (end < residuals.size() && residuals[end].source == residuals[begin].source) ++end;
    if (residuals[begin].source == without_source) continue;
    std::vector<Near> all;
    for (std::size_t i = begin; i < end; ++i) all.push_back({distance(run, residuals[i].run), i});
    const std::size_t kept = std::min(kRunsOfSource, all.size());
    std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(kept), all.end());
    all.resize(kept);
    sources.push_back(std::move(all));
  }
  std::sort(sources.begin(), sources.end(), [](const auto& a, const auto& b) { return a.front() < b.front(); });
  if (sources.size() > kSources) sources.resize(kSources);
  return sources;
}

struct Weighted {
  double value = 0, weight = 0;
};

// Quantile of sorted values; each sits in the middle of its weight, and between two it is linear.
double weighted_quantile(std::span<const Weighted> sorted, double share) {
  double total = 0;
  for (const Weighted& w : sorted) total += w.weight;
  double before = 0, last_place = 0, last_value = sorted.front().value;
  for (const Weighted& w : sorted) {
    const double place = (before + w.weight / 2) / total;
    if (place >= share) {
      if (before == 0) return w.value;
      return last_value + (w.value - last_value) * (share - last_place) / (place - last_place);
    }
    before += w.weight;
    last_place = place;
    last_value = w.value;
  }
  return last_value;
}

void sort_by_value(std::vector<Weighted>& values) {
  std::stable_sort(values.begin(), values.end(), [](const auto& a, const auto& b) { return a.value < b.value; });
}

// What of the widening a residual needs to be in its range.
double needed_widening(const Neighbourhood& n, double log_error) {
  const LogRange plain = log_range(n, {});
  if (plain.holds(log_error)) return 0;
  const double missing = std::max(plain.low - log_error, log_error - plain.high);
  return missing / std::max(n.mean_distance * n.mean_distance, std::numeric_limits<double>::min());
}

// Calls visit(first, last) for the residuals of each source.
template <class Visit>
void for_each_source(std::span<const Residual> residuals, Visit&& visit) {
  for (std::size_t begin = 0, end = 0; begin < residuals.size(); begin = end) {
    while (end < residuals.size() && residuals[end].source == residuals[begin].source) ++end;
    visit(begin, end);
  }
}

// Least squares of the squared differences of log errors on the distance, over pairs of runs of one source; every
// source with pairs weighs the same. Pairs with the same model and sequence length if there are any, for those are what
// people compare.
class PairFit {
 public:
  void add_source(std::span<const Residual> runs, bool same_work) {
    PairFit own;
    for (std::size_t i = 0; i < runs.size(); ++i) {
      for (std::size_t j = i + 1; j < runs.size(); ++j) {
        const RunTraits &a = runs[i].run, &b = runs[j].run;
        if (same_work && (a.parameters != b.parameters || a.seq_len != b.seq_len)) continue;
        const double difference = runs[i].log_error - runs[j].log_error;
        own.add(distance(a, b), difference * difference);
      }
    }
    if (own.pairs_ == 0) return;
    pairs_ += 1;
    x_ += own.x_ / own.pairs_;
    y_ += own.y_ / own.pairs_;
    xx_ += own.xx_ / own.pairs_;
    xy_ += own.xy_ / own.pairs_;
  }
  bool empty() const { return pairs_ == 0; }
  double slope() const {
    const double spread = pairs_ * xx_ - x_ * x_;
    return spread > 0 ? std::max(0.0, (pairs_ * xy_ - x_ * y_) / spread) : 0.0;
  }
  double at_zero() const { return std::max(0.0, (y_ - slope() * x_) / pairs_); }

 private:
  void add(double x, double y) {
    pairs_ += 1;
    x_ += x;
    y_ += y;
    xx_ += x * x;
    xy_ += x * y;
  }
  double pairs_ = 0, x_ = 0, y_ = 0, xx_ = 0, xy_ = 0;
};

PairFit fit_pairs(std::span<const Residual> residuals) {
  for (bool same_work : {true, false}) {
    PairFit fit;
    for_each_source(residuals, [&](std::size_t begin, std::size_t end) {
      fit.add_source(residuals.subspan(begin, end - begin), same_work);
    });
    if (!fit.empty()) return fit;
  }
  return {};
}

// Constants are kept with as many digits as the file holds; the widening is rounded up, so that it covers.
double kept(double value) { return std::round(value * 1e6) / 1e6; }
double kept_up(double value) { return std::ceil(value * 1e6) / 1e6; }

double normal_distribution(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

}  // namespace

int bits(const RunTraits& run) {
  if (run.precision == "fp8") return 8;
  return run.precision == "fp32" || run.precision == "tf32" ? 32 : 16;
}

double distance(const RunTraits& a, const RunTraits& b) {
  return machine_distance(a, b) + work_distance(a, b) + plan_distance(a, b);
}

std::optional<Neighbourhood> neighbourhood(const RunTraits& run, std::span<const Residual> residuals,
                                           std::string_view without_source) {
  const auto sources = nearest_by_source(run, residuals, without_source);
  if (sources.empty()) return std::nullopt;
  Neighbourhood result;
  result.nearest = sources.front().front().index;
  result.nearest_distance = sources.front().front().distance;
  std::vector<Weighted> errors;
  double total = 0;
  for (const std::vector<Near>& runs : sources) {
    double sum = 0;
    for (const Near& near : runs) sum += std::exp(-near.distance / kReach);
    // A source of a single run weighs half of one of thirty.
    const double evidence = 0.5 + 0.5 * static_cast<double>(runs.size()) / static_cast<double>(kRunsOfSource);
    const double of_source = evidence * std::exp(-(runs.front().distance - result.nearest_distance) / kReach);
    for (const Near& near : runs) {
      const double weight = of_source * std::exp(-near.distance / kReach) / sum;
      errors.push_back({residuals[near.index].log_error, weight});
      result.mean_distance += weight * near.distance;
      total += weight;
    }
  }
  result.mean_distance /= total;
  sort_by_value(errors);
  result.low = weighted_quantile(errors, kLowTail);
  result.high = weighted_quantile(errors, kHighTail);
  return result;
}

LogRange log_range(const Neighbourhood& n, const ErrorModel& model) {
  // With the square of the distance: on the runs left out as good as growing in proportion, and wider far from all.
  const double wider = model.widening * n.mean_distance * n.mean_distance;
  return {std::min(n.low - wider, 0.0), std::max(n.high + wider, 0.0)};
}

ErrorModel fit_error_model(std::span<const Residual> residuals) {
  ErrorModel model;
  std::vector<Weighted> needed, nearest;
  for_each_source(residuals, [&](std::size_t begin, std::size_t end) {
    const double weight = 1.0 / static_cast<double>(end - begin);
    for (std::size_t i = begin; i < end; ++i) {
      const auto n = neighbourhood(residuals[i].run, residuals, residuals[i].source);
      if (!n) continue;
      needed.push_back({needed_widening(*n, residuals[i].log_error), weight});
      nearest.push_back({n->nearest_distance, 1.0});
    }
  });
  if (!needed.empty()) {
    sort_by_value(needed);
    sort_by_value(nearest);
    double total = 0, covered = 0;
    for (const Weighted& w : needed) total += w.weight;
    for (const Weighted& w : needed) {
      covered += w.weight;
      model.widening = kept_up(w.value);
      if (covered >= kCovered * total) break;
    }
    model.tested_distance = kept(weighted_quantile(nearest, 0.95));
  }
  if (const PairFit pairs = fit_pairs(residuals); !pairs.empty()) {
    model.pair_variance = kept(pairs.at_zero());
    model.pair_variance_slope = kept(pairs.slope());
  }
  return model;
}

Coverage leave_sources_out(const ErrorBars& bars) {
  Coverage coverage;
  std::size_t runs = 0, inside = 0;
  for_each_source(bars.residuals, [&](std::size_t begin, std::size_t end) {
    Coverage::OfSource of{bars.residuals[begin].source, 0, 0, 0};
    for (std::size_t i = begin; i < end; ++i) {
      const Residual& left_out = bars.residuals[i];
      const auto n = neighbourhood(left_out.run, bars.residuals, left_out.source);
      if (!n) continue;
      const LogRange range = log_range(*n, bars.model);
      ++of.runs;
      of.inside += range.holds(left_out.log_error);
      of.mean_width += range.high - range.low;
    }
    if (of.runs == 0) return;
    runs += of.runs;
    inside += of.inside;
    coverage.mean_width += of.mean_width;
    of.mean_width /= static_cast<double>(of.runs);
    coverage.of_sources += static_cast<double>(of.inside) / static_cast<double>(of.runs);
    coverage.sources.push_back(std::move(of));
  });
  if (runs > 0) {
    coverage.of_runs = static_cast<double>(inside) / static_cast<double>(runs);
    coverage.of_sources /= static_cast<double>(coverage.sources.size());
    coverage.mean_width /= static_cast<double>(runs);
  }
  return coverage;
}

double order_likelihood(double ratio, const RunTraits& a, const RunTraits& b, const ErrorModel& model) {
  const double variance = model.pair_variance + model.pair_variance_slope * distance(a, b);
  const double apart = std::log(std::max(ratio, 1.0));
  if (apart == 0) return 0.5;
  // Errors have longer tails than the normal distribution: of measured pairs that it is surest of, one in a hundred is
  // the other way round (docs/accuracy.md).
  constexpr double kSurest = 0.99;
  return variance > 0 ? std::min(normal_distribution(apart / std::sqrt(variance)), kSurest) : kSurest;
}

}  // namespace foretrain
