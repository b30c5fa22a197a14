#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "sim/analysis/advice.h"
#include "sim/analysis/case_report.h"
#include "sim/analysis/step_flops.h"
#include "sim/workload/balance.h"

namespace foretrain {
namespace {

void add_rates(CaseReport& report) {
  const Case& c = report.subject;
  const double seconds = report.step_time.seconds();
  const double gpus = c.plan.gpus();
  report.samples_per_second = static_cast<double>(c.train.global_batch) / seconds;
  report.tokens_per_second = report.samples_per_second * static_cast<double>(c.train.seq_len);
  report.tokens_per_second_per_gpu = report.tokens_per_second / gpus;
  const StepFlops flops = step_flops(c, report.step.layouts);
  report.model_tflops_per_gpu = flops.model / seconds / gpus / 1e12;
  const FlopsPerSecond rate = peak_rate(c);
  if (rate.value > 0) {
    report.mfu = flops.model / seconds / gpus / rate.value;
    report.hfu = (flops.model + flops.recomputed) / seconds / gpus / rate.value;
  }
}

void add_money(CaseReport& report) {
  const Case& c = report.subject;
  if (c.train.tokens > 0) report.hours = c.train.tokens / report.tokens_per_second / 3600.0;
  if (!c.price) return;
  report.cost_per_billion_tokens = c.price->per_hour().middle() * 1e9 / report.tokens_per_second / 3600.0;
  if (report.hours) report.cost = c.price->cost(*report.hours).middle();
}

[[noreturn]] void report_deadlock(const Step& step, const engine::Deadlock& deadlock) {
  std::string cycle;
  for (engine::TaskId task : deadlock.tasks) cycle += (cycle.empty() ? "" : " -> ") + task_name(step, task);
  throw std::logic_error("the schedule deadlocks: " + cycle);
}

struct Simulated {
  Step step;
  engine::Schedule schedule;
};

Simulated simulate_step(const Case& subject, const Environment& environment, const SimulationOptions& options,
                        std::shared_ptr<const FoldedJob> folded = nullptr) {
  if (layer_passes(subject.plan, subject.model, subject.train) > kMostLayerPasses) {
    throw std::overflow_error(
        fmt::format("{} micro-batches of {} layers a step are more than is simulated; use a larger "
                    "micro_batch, or a smaller global_batch",
                    micro_batches(subject.plan, subject.train), subject.model.layers));
  }
  const Cluster cluster(subject.cluster, environment.link_rates);
  Step step = build_step(subject, cluster, environment.collectives,
                         {.folding = options.folding,
                          .hosts = environment.hosts,
                          .with_pieces = options.with_pieces,
                          .folded = std::move(folded)});
  auto outcome = engine::simulate(step.graph);
  if (const auto* deadlock = std::get_if<engine::Deadlock>(&outcome)) report_deadlock(step, *deadlock);
  return {std::move(step), std::get<engine::Schedule>(std::move(outcome))};
}

// What a paged optimizer's state gives way to, in whole bytes; nothing where all fits or that would not make it fit.
Bytes to_page_out(const CaseReport& report) {
  const Case& c = report.subject;
  const StagePeak& fullest = report.memory[report.fullest];
  if (!is_paged(c.train.optimizer) || c.plan.offload.any() || fullest.needed <= report.capacity) return {};
  const Bytes missing{std::ceil((fullest.needed - report.capacity).value)};
  return missing <= fullest.parts.optimizer ? missing : Bytes{};
}

// Whether weights that the optimizer on the host updates itself have to be there too, to be copied in block by block.
// Products of an fp8 run work on copies of them anyway.
bool masters_leave(const CaseReport& report) {
  const Case& c = report.subject;
  const Offload& offload = c.plan.offload;
  return c.software.offload.weights_are_masters && offload.of_optimizer() == 1.0 &&
         offload.params == Offload::Place::gpu && !is_quantised(c.train.precision) &&
         report.memory[report.fullest].needed > report.capacity;
}

void add_warnings(CaseReport& report) {
  const StagePeak& fullest = report.memory[report.fullest];
  if (report.fits && fullest.needed.value > kTightMemory * report.capacity.value) {
    report.warnings.push_back(
        message("memory is within {} % of capacity: the allocator may free and allocate every step, which "
                "measured runs pay with 1.2 to 2.2 times the step time",
                fmt::format("{:.0f}", 100.0 * (1.0 - fullest.needed / report.capacity))));
  }
  for (const Gpu* gpu : report.subject.cluster.unlike_gpus()) {
    if (gpu->achieved.inherited_from.empty()) continue;
    report.warnings.push_back(
        message("no kernels measured on {}: its rates are those of {}", gpu->name, gpu->achieved.inherited_from));
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

Case with_balanced_plan(Case subject, const Environment& environment) {
  const Case simulated = as_simulated(subject, environment);
  subject.plan = balanced_plan(simulated, Cluster(simulated.cluster, environment.link_rates), environment.collectives);
  return subject;
}

CaseReport simulate_case(const Case& subject, const Environment& environment, const SimulationOptions& options) {
  if (subject.micro_batch_auto) {
    return simulate_case(with_largest_micro_batch(subject, environment), environment, options);
  }
  if (subject.plan.to_balance.any()) {
    return simulate_case(with_balanced_plan(subject, environment), environment, options);
  }
  CaseReport report;
  report.name = subject.name;
  report.subject = as_simulated(subject, environment);
  Simulated simulated = simulate_step(report.subject, environment, options);
  report.step = std::move(simulated.step);
  report.schedule = std::move(simulated.schedule);
  report.step_time = step_windows(report.step, report.schedule).length;

  report.per_class = breakdowns(report.step, report.schedule, subject.plan.zero);
  report.breakdown = mean(report.per_class, report.step.multiplicity);
  report.bubble_fraction = report.breakdown[Cause::bubble].seconds() / report.step_time.seconds();
  report.memory = memory_peaks(report.subject, report.step);
  const auto fullest = std::max_element(report.memory.begin(), report.memory.end(), [](const auto& a, const auto& b) {
    return a.needed - a.capacity < b.needed - b.capacity;
  });
  report.fullest = static_cast<std::size_t>(fullest - report.memory.begin());
  report.capacity = fullest->capacity;
  if (subject.plan.offload.any()) {
    report.host = host_memory(report.subject, report.step.layouts, host_activation_peaks(report.subject, report.step));
    report.host_capacity = report.subject.cluster.host.dram;
  }
  report.fits = fullest->needed <= report.capacity && report.host_fits();
  if (const Bytes paged = to_page_out(report); paged.value > 0) {
    Case with_paging = subject;
    with_paging.plan.offload.paged = paged;
    with_paging.plan.offload.zero_stage = subject.plan.zero;
    return simulate_case(with_paging, environment, options);
  }
  if (masters_leave(report)) {
    Case without_weights = subject;
    without_weights.plan.offload.params = subject.plan.offload.optimizer;
    return simulate_case(without_weights, environment, options);
  }
  add_rates(report);
  add_money(report);
  add_warnings(report);
  if (options.with_elasticity && layer_passes(subject.plan, subject.model, subject.train) <= kMostForElasticity) {
    report.elasticity = elasticity(subject, environment, report.step.folded);
  }
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

Time step_time(const Case& subject, const Environment& environment, std::shared_ptr<const FoldedJob> folded) {
  if (subject.micro_batch_auto) return step_time(with_largest_micro_batch(subject, environment), environment);
  if (subject.plan.to_balance.any()) return step_time(with_balanced_plan(subject, environment), environment);
  const Simulated simulated = simulate_step(as_simulated(subject, environment), environment, {}, std::move(folded));
  return step_windows(simulated.step, simulated.schedule).length;
}

}  // namespace foretrain
