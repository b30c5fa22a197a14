#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "sim/analysis/advice.h"
#include "sim/analysis/case_report.h"
#include "sim/model/operators.h"

namespace foretrain {
namespace {

// FLOPs of one step over all GPUs: forward once, backward twice (once for frozen weights); and what recomputation adds.
struct StepFlops {
  double model = 0, recomputed = 0;
};

StepFlops step_flops(const Case& c, const std::vector<StageLayout>& layouts) {
  const double tokens = static_cast<double>(c.train.global_batch * c.train.seq_len);
  const ForwardFlops forward = forward_flops(c.model, tokens, c.train.seq_len);
  StepFlops flops{3.0 * forward.total().value, 0.0};
  if (const Peft& peft = c.train.peft; peft.active()) {
    // Frozen weights have no gradient of their own; adapters are matrices like others.
    flops.model -= forward.layers.value + (peft.full_head ? 0.0 : forward.head.value);
    const double adapters = layer_adapters(c.model, peft, 1, c.software.lora_merged_projections).parameters(peft.rank);
    flops.model += 6.0 * adapters * static_cast<double>(c.model.layers) * tokens;
  }
  if (c.plan.recompute.of_attention_core(c.software) && c.train.attention == AttentionKernel::standard) {
    flops.recomputed = forward.attention_core.value;
  } else if (c.plan.recompute.of_parts()) {
    const RedoneParts redone = c.plan.recompute.redone(c.software);
    const LayerProjections p = layer_projections(c.model, 1);
    const auto work = [](bool runs, const Projection& projection) {
      return runs ? 2.0 * static_cast<double>(projection.n) * static_cast<double>(projection.k) : 0.0;
    };
    const double per_token = work(redone.qkv, p.qkv) + work(redone.attention_out, p.attention_out) +
                             work(redone.mlp_in, p.mlp_in) + work(redone.mlp_out, p.mlp_out);
    flops.recomputed = per_token * tokens * static_cast<double>(c.model.layers) +
                       (redone.core_attention ? forward.attention_core.value : 0.0);
  } else {
    double layers = 0, again = 0;
    for (const StageLayout& stage : layouts) {
      for (const Chunk& chunk : stage.chunks) {
        for (const Block& block : chunk.blocks) {
          layers += block.kind == Block::Kind::layer;
          again += block.recomputed;
        }
      }
    }
    if (layers > 0) flops.recomputed = (forward.layers + forward.attention_core).value * again / layers;
  }
  return flops;
}

void add_rates(CaseReport& report) {
  const Case& c = report.subject;
  const double seconds = report.step_time.seconds();
  const double gpus = c.plan.gpus();
  report.samples_per_second = static_cast<double>(c.train.global_batch) / seconds;
  report.tokens_per_second = report.samples_per_second * static_cast<double>(c.train.seq_len);
  report.tokens_per_second_per_gpu = report.tokens_per_second / gpus;
  const StepFlops flops = step_flops(c, report.step.layouts);
  report.model_tflops_per_gpu = flops.model / seconds / gpus / 1e12;
  const auto peak = c.cluster.gpu.dense(c.train.precision);
  const FlopsPerSecond rate = peak ? *peak : c.cluster.gpu.dense(Precision::fp32).value_or(FlopsPerSecond{});
  if (rate.value > 0) {
    report.mfu = flops.model / seconds / gpus / rate.value;
    report.hfu = (flops.model + flops.recomputed) / seconds / gpus / rate.value;
  }
}

void add_money(CaseReport& report) {
  const Case& c = report.subject;
  if (c.train.tokens > 0) report.hours = c.train.tokens / report.tokens_per_second / 3600.0;
  if (!c.price) return;
  constexpr double kHoursPerMonth = 730.0;
  const double per_hour = c.price->per == Case::Price::Per::hour ? c.price->amount : c.price->amount / kHoursPerMonth;
  report.cost_per_billion_tokens = per_hour * 1e9 / report.tokens_per_second / 3600.0;
  if (report.hours) report.cost = per_hour * *report.hours;
}

[[noreturn]] void report_deadlock(const Step& step, const engine::Deadlock& deadlock) {
  std::string cycle;
  for (engine::TaskId task : deadlock.tasks) cycle += (cycle.empty() ? "" : " -> ") + task_name(step, task);
  throw std::logic_error("the schedule deadlocks: " + cycle);
}

void add_warnings(CaseReport& report) {
  const StagePeak& fullest = report.memory[report.fullest];
  // Measured runs slow down by 1.2 to 2.2 when the allocator works at the limit (study of whole steps).
  constexpr double kTight = 0.93;
  if (report.fits && fullest.needed.value > kTight * report.capacity.value) {
    report.warnings.push_back(
        message("memory is within {} % of capacity: the allocator may free and allocate every step, which "
                    "measured runs pay with 1.2 to 2.2 times the step time",
                    fmt::format("{:.0f}", 100.0 * (1.0 - fullest.needed / report.capacity))));
  }
  const AchievedRates& achieved = report.subject.cluster.gpu.achieved;
  if (!achieved.inherited_from.empty()) {
    report.warnings.push_back(message("no kernels measured on {}: its rates are those of {}",
                                          report.subject.cluster.gpu.name, achieved.inherited_from));
  }
}

}  // namespace

std::optional<Environment> load_environment(const DataFolder& data, Diagnostics& diagnostics) {
  auto rates = load_link_rates(data, diagnostics);
  auto collectives = load_collective_constants(data, diagnostics);
  auto factors = load_step_factors(data, diagnostics);
  auto hosts = load_host_rates(data, diagnostics);
  if (!rates || !collectives || !factors || !hosts) return std::nullopt;
  return Environment{data, *rates, *collectives, *factors, *hosts};
}

Case as_simulated(const Case& subject, const Environment& environment) {
  Case factored = with_step_factors(subject, environment.factors);
  if (subject.cluster.power_limit_watts > 0) {
    factored.cluster.gpu = with_power_limit(factored.cluster.gpu, subject.cluster.power_limit_watts);
  }
  return factored;
}

CaseReport simulate_case(const Case& subject, const Environment& environment, const SimulationOptions& options) {
  if (subject.micro_batch_auto) {
    return simulate_case(with_largest_micro_batch(subject, environment), environment, options);
  }
  if (layer_passes(subject.plan, subject.model, subject.train) > kMostLayerPasses) {
    throw std::overflow_error(
        fmt::format("{} micro-batches of {} layers a step are more than is simulated; use a larger "
                    "micro_batch, or a smaller global_batch",
                    micro_batches(subject.plan, subject.train), subject.model.layers));
  }
  CaseReport report;
  report.name = subject.name;
  report.subject = as_simulated(subject, environment);
  const Cluster cluster(report.subject.cluster, environment.link_rates);
  report.step = build_step(report.subject, cluster, environment.collectives,
                           {options.folding, environment.hosts, options.with_pieces});
  auto outcome = engine::simulate(report.step.graph);
  if (const auto* deadlock = std::get_if<engine::Deadlock>(&outcome)) report_deadlock(report.step, *deadlock);
  report.schedule = std::get<engine::Schedule>(std::move(outcome));
  report.step_time = step_windows(report.step, report.schedule).length;

  report.per_class = breakdowns(report.step, report.schedule, subject.plan.zero);
  report.breakdown = mean(report.per_class, report.step.multiplicity);
  report.bubble_fraction = report.breakdown[Cause::bubble].seconds() / report.step_time.seconds();
  report.elasticity = elasticity(report.step, report.schedule);
  report.memory = memory_peaks(report.subject, report.step);
  const auto fullest = std::max_element(report.memory.begin(), report.memory.end(),
                                        [](const auto& a, const auto& b) { return a.needed < b.needed; });
  report.fullest = static_cast<std::size_t>(fullest - report.memory.begin());
  report.capacity = report.subject.cluster.gpu.memory;
  if (subject.plan.offload.any()) {
    report.host = host_memory(report.subject, report.step.layouts, host_activation_peaks(report.subject, report.step));
    report.host_capacity = report.subject.cluster.host.dram;
  }
  report.fits = fullest->needed <= report.capacity && report.host_fits();
  add_rates(report);
  add_money(report);
  add_warnings(report);
  if (options.with_advice) {
    if (!report.fits) report.changes = fitting_changes(subject, environment);
    if (const auto baseline = scaling_baseline(subject, environment); baseline && report.fits) {
      report.scaling_baseline_gpus = baseline->gpus;
      report.scaling_efficiency = baseline->gpus == subject.plan.gpus()
                                      ? 1.0
                                      : report.tokens_per_second_per_gpu / baseline->tokens_per_second_per_gpu;
    }
  }
  return report;
}

}  // namespace foretrain
