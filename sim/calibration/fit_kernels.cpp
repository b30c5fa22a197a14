#include "sim/calibration/fit_kernels.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>

#include "sim/calibration/fit_robust.h"

namespace foretrain {
namespace {

using Rows = std::vector<const Measurement*>;

// What the curves of products need beside the matrix rate; products hide their own memory time at 0.9 of the bandwidth.
constexpr double kProductMemory = 0.9;
constexpr double kUsualFloor = 2e-6;  // a tiny kernel in a stream, see fit_launch

const Gpu& card_of(const Measurements& all, const Measurement& row) { return all.cards[row.card].gpu; }

// The rows that `wanted` accepts of the cards of one file, of the condition that is nearest to training.
Rows rows_of(const Measurements& all, const std::optional<std::string>& achieved,
             const std::function<bool(const Measurement&)>& wanted) {
  std::array<Rows, kConditions> by_condition;
  for (const Measurement& row : all.rows) {
    if (achieved && all.cards[row.card].achieved != *achieved) continue;
    if (wanted(row)) by_condition[static_cast<std::size_t>(row.condition)].push_back(&row);
  }
  for (Rows& rows : by_condition) {
    if (!rows.empty()) return std::move(rows);
  }
  return {};
}

FitQuality quality_of(const Rows& rows, std::span<const double> log_errors) {
  FitQuality quality;
  quality.rows = rows.size();
  quality.condition = rows.front()->condition;
  std::vector<double> sizes, signed_errors;
  for (const double e : log_errors) {
    signed_errors.push_back(std::expm1(e));
    sizes.push_back(std::abs(signed_errors.back()));
  }
  quality.median_error = quantile(sizes, 0.5);
  quality.p90_error = quantile(sizes, 0.9);
  quality.bias = quantile(signed_errors, 0.5);
  return quality;
}

// Names of the regions that no row lies in.
struct Region {
  const char* name;
  std::function<bool(const Measurement&)> holds;
};
std::vector<std::string> empty_regions(const Rows& rows, std::span<const Region> regions) {
  std::vector<std::string> result;
  for (const Region& region : regions) {
    if (std::none_of(rows.begin(), rows.end(), [&](const Measurement* r) { return region.holds(*r); })) {
      result.emplace_back(region.name);
    }
  }
  return result;
}

double number(std::int64_t n) { return static_cast<double>(n); }

bool sixteen_bit(Precision p) { return p == Precision::fp16 || p == Precision::bf16; }

// Whether rows of precision `measured` say what precision `wanted` reaches on this card.
bool same_rate(const Gpu& gpu, Precision measured, Precision wanted) {
  if (!gpu.dense(measured) || !gpu.dense(wanted)) return false;
  return measured == wanted ||
         (sixteen_bit(measured) && sixteen_bit(wanted) && *gpu.dense(measured) == *gpu.dense(wanted));
}

// A card that reaches these fractions.
Gpu reaching(Gpu gpu, double matmul, double memory, double floor) {
  gpu.achieved.matmul.fill(matmul);
  gpu.achieved.memory = memory;
  gpu.achieved.kernel_floor = gpu.achieved.elementwise_floor = {floor};
  return gpu;
}

Gemm product(double m, double n, double k) {
  Gemm g;
  g.m = static_cast<std::int64_t>(m);
  g.n = static_cast<std::int64_t>(n);
  g.k = static_cast<std::int64_t>(k);
  return g;
}

// Gated layer: gate and up projection, activation, down projection. An activation in one kernel reads two elements
// and writes one (backward: reads three, writes two); a chain of operators passes 2.8 times as often forward (study of
// measured kernels, section "memory-bound kernels").
double mlp_seconds(const Gpu& gpu, const MlpSample& s) {
  const double t = number(s.tokens), h = number(s.hidden), f = number(s.ffn);
  const double element = element_bytes(s.precision), passes = s.fused ? 1.0 : 2.8;
  const auto gemm_of = [&](double m, double n, double k) { return gemm_time(gpu, s.precision, product(m, n, k)); };
  const auto stream = [&](double elements, double kernels) {
    return streaming_time(gpu, Bytes{elements * t * f * element * passes}, kernels);
  };
  KernelTime time;
  if (s.passes != MlpSample::Passes::backward) {
    time += gemm_of(t, f, h) * 2.0 + gemm_of(t, h, f) + stream(3.0, s.fused ? 1.0 : 2.0);
  }
  if (s.passes != MlpSample::Passes::forward) {
    time += gemm_of(t, h, f) * 2.0 + gemm_of(h, f, t) * 2.0;  // gradients of input and weights, up and gate
    time += gemm_of(t, f, h) + gemm_of(f, h, t);              // and down
    time += stream(5.0, s.fused ? 1.0 : 4.0);
  }
  return time.total().value;
}

double matmul_seconds(const Gpu& gpu, const Measurement& row) {
  if (const auto* mlp = std::get_if<MlpSample>(&row.kernel)) return mlp_seconds(gpu, *mlp);
  const auto& sample = std::get<GemmSample>(row.kernel);
  return gemm_time(gpu, sample.precision, sample.gemm).total().value;
}

std::optional<Precision> matmul_precision(const Measurement& row) {
  if (const auto* gemm = std::get_if<GemmSample>(&row.kernel)) return gemm->precision;
  if (const auto* mlp = std::get_if<MlpSample>(&row.kernel)) return mlp->precision;
  return std::nullopt;
}

const std::vector<Region>& matmul_regions() {
  const auto gemm = [](auto holds) {
    return [holds](const Measurement& row) {
      const auto* sample = std::get_if<GemmSample>(&row.kernel);
      return sample != nullptr && holds(sample->gemm, *sample);
    };
  };
  static const std::vector<Region> regions = {
      {"skinny (M or N at most 128)", gemm([](const Gemm& g, const GemmSample&) { return std::min(g.m, g.n) <= 128; })},
      {"below 20 GFLOP", gemm([](const Gemm& g, const GemmSample&) {
         return number(g.batch) * number(g.m) * number(g.n) * number(g.k) < 1e10;
       })},
      {"above 2 TFLOP", gemm([](const Gemm& g, const GemmSample&) {
         return number(g.batch) * number(g.m) * number(g.n) * number(g.k) > 1e12;
       })},
      {"K above 16k", gemm([](const Gemm& g, const GemmSample&) { return g.k > 16384; })},
      {"batched", gemm([](const Gemm& g, const GemmSample&) { return g.batch > 1; })},
      {"accumulating", gemm([](const Gemm& g, const GemmSample&) { return g.accumulate; })},
      {"layouts nn, nt", gemm([](const Gemm&, const GemmSample& s) { return s.layout == "nn" || s.layout == "nt"; })},
  };
  return regions;
}

RateFit fit_best_shapes(const Measurements& all, const Rows& rows, const std::vector<Precision>& precisions) {
  std::vector<double> fractions;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    fractions.push_back(rows[i]->rate / card_of(all, *rows[i]).dense(precisions[i])->value);
  }
  RateFit fit;
  fit.value = std::clamp(quantile(fractions, 0.5), 0.3, 1.1);
  std::vector<double> log_errors;
  for (const double f : fractions) log_errors.push_back(std::log(f / fit.value));
  fit.quality = quality_of(rows, log_errors);
  fit.quality.without_data = {"everything but one shape a card"};
  return fit;
}

const std::vector<Region>& attention_regions() {
  const auto attention = [](auto holds) {
    return [holds](const Measurement& row) { return holds(std::get<AttentionSample>(row.kernel)); };
  };
  static const std::vector<Region> regions = {
      {"below 1k tokens", attention([](const AttentionSample& s) { return s.shape.seq < 1024; })},
      {"above 8k tokens", attention([](const AttentionSample& s) { return s.shape.seq > 8192; })},
      {"few heads (at most 8)", attention([](const AttentionSample& s) { return s.shape.batch * s.shape.heads <= 8; })},
      {"causal", attention([](const AttentionSample& s) { return s.shape.causal; })},
      {"not causal", attention([](const AttentionSample& s) { return !s.shape.causal; })},
      {"head dim 64", attention([](const AttentionSample& s) { return s.shape.head_dim == 64; })},
      {"head dim 128", attention([](const AttentionSample& s) { return s.shape.head_dim == 128; })},
      {"forward", attention([](const AttentionSample& s) { return s.pass == Pass::forward; })},
      {"backward", attention([](const AttentionSample& s) { return s.pass == Pass::backward; })},
  };
  return regions;
}

const AttentionSample& attention_of(const Measurement& row) { return std::get<AttentionSample>(row.kernel); }

// The prologue tells itself only where rows of one pass differ in how much of it they feel.
bool prologue_shows(const Rows& rows, Pass pass) {
  double least = 1.0, most = 0.0;
  for (const Measurement* row : rows) {
    const AttentionSample& s = attention_of(*row);
    if (s.pass != pass) continue;
    const double felt = s.shape.causal ? 400.0 / (number(s.shape.seq) + 400.0) : 0.0;
    least = std::min(least, felt);
    most = std::max(most, felt);
  }
  return most - least > 0.05;
}

}  // namespace

std::optional<RateFit> fit_matmul(const Measurements& all, const std::string& achieved, Precision wanted) {
  const Rows rows = rows_of(all, achieved, [&](const Measurement& row) {
    const std::optional<Precision> precision = matmul_precision(row);
    return precision && same_rate(card_of(all, row), *precision, wanted);
  });
  if (rows.empty()) return std::nullopt;
  if (rows.front()->condition == Condition::best_shape) {
    std::vector<Precision> precisions;
    for (const Measurement* row : rows) precisions.push_back(*matmul_precision(*row));
    return fit_best_shapes(all, rows, precisions);
  }

  std::vector<double> measured;
  for (const Measurement* row : rows) measured.push_back(row->seconds);
  const std::vector<FitParameter> parameters = {
      {.start = 0.7, .min = 0.3, .max = 1.1, .prior = std::nullopt, .spread = 0.5},
      {.start = kUsualFloor, .min = 0.5e-6, .max = 10e-6, .prior = kUsualFloor, .spread = 0.7}};
  const RobustFit robust = fit_robust(parameters, measured, [&](std::span<const double> x, std::span<double> out) {
    std::vector<Gpu> cards;
    for (const Datasheet& sheet : all.cards) cards.push_back(reaching(sheet.gpu, x[0], kProductMemory, x[1]));
    for (std::size_t i = 0; i < rows.size(); ++i) out[i] = matmul_seconds(cards[rows[i]->card], *rows[i]);
  });
  RateFit fit;
  fit.value = robust.values[0];
  fit.quality = quality_of(rows, robust.log_errors);
  fit.quality.at_bound = robust.at_bound[0];
  fit.quality.without_data = empty_regions(rows, matmul_regions());
  return fit;
}

std::optional<AttentionFit> fit_attention(const Measurements& all, const std::string& achieved,
                                          AttentionKernel kernel) {
  const auto of_kernel = [&](const Measurement& row) {
    const auto* sample = std::get_if<AttentionSample>(&row.kernel);
    return sample != nullptr && sample->kernel == kernel && card_of(all, row).dense(sample->precision);
  };
  Rows rows = rows_of(
      all, achieved, [&](const Measurement& row) { return of_kernel(row) && attention_of(row).shape.head_dim == 128; });
  if (rows.size() < 2) rows = rows_of(all, achieved, of_kernel);
  if (rows.empty()) return std::nullopt;

  std::vector<double> measured;
  for (const Measurement* row : rows) measured.push_back(row->seconds);
  // Where rows cannot tell, the prologue of the architecture: one block of queries, twice as long on Blackwell.
  const bool measured_prologue = prologue_shows(rows, Pass::forward) || prologue_shows(rows, Pass::backward);
  const double usual = card_of(all, *rows.front()).architecture == "blackwell" ? 800.0 : 400.0;
  const std::vector<FitParameter> parameters = {
      {.start = 0.5, .min = 0.05, .max = 1.1, .prior = std::nullopt, .spread = 0.5},
      {.start = 0.5, .min = 0.05, .max = 1.1, .prior = std::nullopt, .spread = 0.5},
      {.start = usual,
       .min = measured_prologue ? 50.0 : usual,
       .max = measured_prologue ? 2000.0 : usual,
       .prior = usual,
       .spread = 0.3}};
  const RobustFit robust = fit_robust(parameters, measured, [&](std::span<const double> x, std::span<double> out) {
    std::vector<Gpu> cards;
    for (const Datasheet& sheet : all.cards) {
      cards.push_back(reaching(sheet.gpu, 1.0, kProductMemory, kUsualFloor));
      cards.back().achieved.flash[static_cast<std::size_t>(kernel)] = {x[0], x[1], x[2]};
    }
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const AttentionSample& s = attention_of(*rows[i]);
      out[i] = flash_attention_time(cards[rows[i]->card], s.precision, kernel, s.shape, s.pass).total().value;
    }
  });

  AttentionFit fit;
  const auto has = [&](Pass pass) {
    return std::any_of(rows.begin(), rows.end(), [&](const Measurement* r) { return attention_of(*r).pass == pass; });
  };
  if (has(Pass::forward)) fit.forward = robust.values[0];
  if (has(Pass::backward)) fit.backward = robust.values[1];
  fit.prologue = robust.values[2];
  fit.prologue_measured = measured_prologue;
  fit.quality = quality_of(rows, robust.log_errors);
  fit.quality.at_bound = (fit.forward && robust.at_bound[0]) || (fit.backward && robust.at_bound[1]);
  fit.quality.without_data = empty_regions(rows, attention_regions());
  return fit;
}

std::optional<RateFit> fit_memory(const Measurements& all, const std::string& achieved) {
  const Rows rows =
      rows_of(all, achieved, [](const Measurement& row) { return std::holds_alternative<MemorySample>(row.kernel); });
  if (rows.empty()) return std::nullopt;

  const auto bytes_of = [](const Measurement& row) { return std::get<MemorySample>(row.kernel).bytes; };
  std::vector<double> measured;  // seconds, or seconds a byte where the size is not known
  for (const Measurement* row : rows) measured.push_back(bytes_of(*row).value > 0 ? row->seconds : 1.0 / row->rate);
  const std::vector<FitParameter> parameters = {
      {.start = 0.85, .min = 0.3, .max = 1.05, .prior = std::nullopt, .spread = 0.5},
      {.start = kUsualFloor, .min = 0.5e-6, .max = 20e-6, .prior = kUsualFloor, .spread = 0.7}};
  const RobustFit robust = fit_robust(parameters, measured, [&](std::span<const double> x, std::span<double> out) {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const Gpu gpu = reaching(card_of(all, *rows[i]), 1.0, x[0], x[1]);
      const Bytes bytes = bytes_of(*rows[i]);
      out[i] = bytes.value > 0 ? streaming_time(gpu, bytes, 1.0).total().value
                               : streaming_time(gpu, Bytes{1.0}, 0.0).total().value;
    }
  });
  RateFit fit;
  fit.value = robust.values[0];
  fit.quality = quality_of(rows, robust.log_errors);
  fit.quality.at_bound = robust.at_bound[0];
  const auto sized = [&](double from, double to) {
    return [=](const Measurement& row) { return bytes_of(row).value >= from && bytes_of(row).value < to; };
  };
  const std::vector<Region> regions = {{"below 64 MB", sized(1, 64e6)}, {"above 256 MB", sized(256e6, 1e15)}};
  fit.quality.without_data = empty_regions(rows, regions);
  return fit;
}

std::optional<LaunchFit> fit_launch(const Measurements& all, const std::optional<std::string>& achieved) {
  const auto launched = [&](bool graph) {
    return rows_of(all, achieved, [&](const Measurement& row) {
      const auto* sample = std::get_if<LaunchSample>(&row.kernel);
      return sample != nullptr && sample->graph == graph;
    });
  };
  // One figure a card, so that a card of many rows counts no more than one of few.
  const auto median_of = [&](const Rows& rows) {
    std::map<std::size_t, std::vector<double>> by_card;
    for (const Measurement* row : rows) by_card[row->card].push_back(row->seconds * 1e6);
    std::vector<double> medians;
    for (auto& [card, times] : by_card) medians.push_back(quantile(std::move(times), 0.5));
    return quantile(std::move(medians), 0.5);
  };
  const Rows stream = launched(false), graph = launched(true);
  if (stream.empty()) return std::nullopt;
  LaunchFit fit;
  fit.stream_us = median_of(stream);
  if (!graph.empty()) fit.graph_us = median_of(graph);
  std::vector<double> log_errors;
  for (const Measurement* row : stream) log_errors.push_back(std::log(fit.stream_us / (row->seconds * 1e6)));
  fit.quality = quality_of(stream, log_errors);
  return fit;
}

}  // namespace foretrain
