#include "sim/analysis/advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

namespace foretrain {
namespace {

CaseReport simulate_plain(const Case& subject, const Environment& environment) {
  return simulate_case(subject, environment,
                       {.folding = Communicators::Folding::symmetric, .with_advice = false, .with_elasticity = false});
}

// Micro-batches that divide the sequences of one data-parallel rank and leave a legal pipeline, largest first. None
// where every rank has a share of its own.
std::vector<std::int64_t> legal_micro_batches(const Case& c) {
  const std::int64_t per_rank = c.train.global_batch / c.plan.dp;
  if (!c.plan.shares.empty()) return {};
  std::vector<std::int64_t> legal;
  for (std::int64_t b = std::min<std::int64_t>(per_rank, 1024); b >= 1; --b) {
    if (per_rank % b != 0 || c.train.global_batch % b != 0 || per_rank / b > kMostLayerPasses / c.model.layers)
      continue;
    if (!feeds_schedule(c.plan, per_rank / b)) continue;
    if (c.train.optimizer_in_backward && b != per_rank) continue;
    legal.push_back(b);
  }
  return legal;
}

// One step towards less memory. Returns what was changed, or nothing if there is nothing left to change.
struct Change {
  std::string what;
  Case changed;
};

std::optional<Change> smaller_micro_batch(const Case& c) {
  for (std::int64_t b : legal_micro_batches(c)) {
    if (b > c.plan.micro_batch / 2) continue;
    Case changed = c;
    changed.plan.micro_batch = b;
    return Change{fmt::format("micro_batch: {}", b), std::move(changed)};
  }
  return std::nullopt;
}

std::optional<Change> smallest_micro_batch(const Case& c) {
  const std::vector<std::int64_t> legal = legal_micro_batches(c);
  if (legal.empty() || legal.back() >= c.plan.micro_batch) return std::nullopt;
  Case changed = c;
  changed.plan.micro_batch = legal.back();
  return Change{fmt::format("micro_batch: {}", legal.back()), std::move(changed)};
}

std::optional<Change> full_recompute(const Case& c) {
  if (c.plan.recompute.mode == Recompute::Mode::full) return std::nullopt;
  Case changed = c;
  changed.plan.recompute = {Recompute::Mode::full, 0};
  return Change{"recompute: full", std::move(changed)};
}

// Whether all data-parallel ranks still have as many micro-batches as they meet in.
bool ranks_meet(const Case& c) {
  const std::vector<Plan::Share>& shares = c.plan.shares;
  return !meets_every_micro_batch(c.plan, c.software) ||
         std::all_of(shares.begin(), shares.end(),
                     [&](const Plan::Share& s) { return s.micro_batches == shares.front().micro_batches; });
}

// ZeRO-2 and -3 do not go with a pipeline, ZeRO-3 not always with quantised weights.
int highest_legal_zero(const Case& c) {
  if (c.plan.pp > 1) return 1;
  return c.train.peft.format != nullptr && !c.software.zero3_shards_quantised ? 2 : 3;
}

std::optional<Change> higher_zero(const Case& c) {
  const int most = highest_legal_zero(c);
  if (c.plan.zero >= most || c.plan.data_ranks() == 1) return std::nullopt;
  Case changed = c;
  ++changed.plan.zero;
  changed.plan.offload.zero_stage = changed.plan.zero;
  return Change{fmt::format("zero: {}", changed.plan.zero), std::move(changed)};
}

std::optional<Change> highest_zero(const Case& c) {
  const int most = highest_legal_zero(c);
  if (c.plan.zero + 1 >= most || c.plan.data_ranks() == 1) return std::nullopt;
  Case changed = c;
  changed.plan.zero = most;
  changed.plan.offload.zero_stage = most;
  return Change{fmt::format("zero: {}", most), std::move(changed)};
}

std::string offload_text(const Plan& plan) {
  const Offload& offload = plan.offload;
  const bool weights = offload.params != Offload::Place::gpu;
  std::string text = offload.optimizer == Offload::Place::nvme
                         ? fmt::format("offload: {{optimizer: nvme{}}}", weights ? ", params: cpu" : "")
                         : fmt::format("offload: optimizer{}", weights ? "+params" : "");
  return weights && plan.data_ranks() > 1 ? "zero: 3, " + text : text;
}

// Plans that keep more and more of the state off the GPU, each with what else would save memory.
std::vector<Change> offload_changes(const Case& c) {
  std::vector<Change> changes;
  if (!runs_on_host(c.train.optimizer) || c.train.optimizer_in_backward) return changes;
  auto add = [&](const Plan& plan) {
    Change change{offload_text(plan), c};
    change.changed.plan = plan;
    changes.push_back(change);
    for (const auto step : {full_recompute, smallest_micro_batch}) {
      const auto next = step(change.changed);
      if (next) change = {change.what + ", " + next->what, next->changed};
      if (next) changes.push_back(change);
    }
  };
  for (auto plan = with_more_on_host(c.plan, c.software); plan; plan = with_more_on_host(*plan, c.software)) add(*plan);
  if (const auto plan = with_more_on_nvme(c.plan, c.software)) add(*plan);
  return changes;
}

// The fastest that fits: large micro-batches leave few to deal out by the speeds of the GPUs.
Case with_fastest_micro_batch(const Case& subject, const Environment& environment) {
  Case found = subject;
  found.micro_batch_auto = false;
  found.plan.micro_batch = 1;
  Time best = Time::max();
  Case tried = found;
  for (const std::int64_t b : legal_micro_batches(subject)) {
    tried.plan.micro_batch = b;
    const CaseReport report = simulate_plain(tried, environment);
    if (!report.fits || report.step_time >= best) continue;
    best = report.step_time;
    found.plan.micro_batch = b;
  }
  found.assumptions.push_back(message("micro_batch: auto is {}, the fastest that fits", found.plan.micro_batch));
  return found;
}

}  // namespace

Case with_largest_micro_batch(const Case& subject, const Environment& environment) {
  if (subject.plan.to_balance.batch) return with_fastest_micro_batch(subject, environment);
  Case found = subject;
  found.micro_batch_auto = false;
  const std::vector<std::int64_t> legal = legal_micro_batches(subject);
  found.plan.micro_batch = legal.empty() ? 1 : legal.back();
  for (std::int64_t b : legal) {
    found.plan.micro_batch = b;
    if (simulate_plain(found, environment).fits) break;
  }
  found.assumptions.push_back(message("micro_batch: auto is {}, the largest that fits", found.plan.micro_batch));
  return found;
}

std::vector<FittingChange> fitting_changes(const Case& subject, const Environment& environment) {
  using Reduction = std::function<std::optional<Change>(const Case&)>;
  const std::vector<Reduction> steps = {smaller_micro_batch, smallest_micro_batch, full_recompute, higher_zero,
                                        highest_zero};
  std::vector<FittingChange> fitting;
  auto consider = [&](const Change& change) {
    const bool known =
        std::any_of(fitting.begin(), fitting.end(), [&](const auto& f) { return f.what == change.what; });
    if (known || !ranks_meet(change.changed)) return;
    const CaseReport report = simulate_plain(change.changed, environment);
    if (report.fits) fitting.push_back({change.what, report.memory[report.fullest].needed, report.step_time});
  };
  for (const Reduction& step : steps) {
    if (const auto change = step(subject)) consider(*change);
  }
  if (fitting.empty()) {
    for (std::size_t i = 0; i < steps.size(); ++i) {
      for (std::size_t j = i + 1; j < steps.size(); ++j) {
        const auto first = steps[i](subject);
        const auto second = first ? steps[j](first->changed) : std::nullopt;
        if (second) consider({first->what + ", " + second->what, second->changed});
      }
    }
  }
  if (fitting.empty()) {
    for (const Change& change : offload_changes(subject)) {
      consider(change);
      if (fitting.size() > 1) break;
    }
  }
  if (fitting.empty()) {
    // Everything at once, on more and more GPUs.
    Change all{"", subject};
    for (const Reduction& step : {Reduction(smallest_micro_batch), Reduction(full_recompute), Reduction(highest_zero),
                                  Reduction(higher_zero)}) {
      if (const auto change = step(all.changed)) all = {all.what + change->what + ", ", change->changed};
    }
    for (int factor = 1; factor <= 64; factor *= 2) {
      Case more = all.changed;
      if (factor > 1 && more.cluster.nics == 0 && subject.cluster.gpus * factor > subject.cluster.gpus_per_node) break;
      if (factor > 1 && !subject.plan.shares.empty()) break;
      more.cluster.gpus = subject.cluster.gpus * factor;
      more.plan.dp = subject.plan.dp * factor;
      more.train.global_batch = subject.train.global_batch * factor;
      const std::size_t before = fitting.size();
      const std::string reductions = all.what.substr(0, all.what.size() - std::min<std::size_t>(2, all.what.size()));
      consider({factor == 1 ? reductions : fmt::format("{}{} GPUs", all.what, more.cluster.gpus), more});
      if (fitting.size() > before) break;
    }
  }
  std::stable_sort(fitting.begin(), fitting.end(),
                   [](const auto& a, const auto& b) { return a.step_time < b.step_time; });
  if (fitting.size() > 3) fitting.resize(3);
  return fitting;
}

std::optional<ScalingBaseline> scaling_baseline(const Case& subject, const Environment& environment) {
  if (!subject.plan.shares.empty()) return std::nullopt;
  const int model_parallel = subject.plan.tp * subject.plan.cp * subject.plan.pp;
  for (int dp = 1; dp < subject.plan.dp; ++dp) {
    const int gpus = dp * model_parallel;
    if (model_parallel * dp / subject.plan.pp % (subject.plan.ep * subject.plan.etp) != 0) continue;
    const bool whole_nodes = gpus <= subject.cluster.gpus_per_node || gpus % subject.cluster.gpus_per_node == 0;
    if (subject.plan.dp % dp != 0 || !whole_nodes || subject.train.global_batch * dp % subject.plan.dp != 0) continue;
    Case fewer = subject;
    fewer.plan.dp = dp;
    const int group = subject.plan.shard_group;
    fewer.plan.shard_group = group > 0 && fewer.plan.data_ranks() % group == 0 ? group : 0;
    ZeroPlusPlus& zeropp = fewer.plan.zeropp;
    if (fewer.plan.data_ranks() == 1) zeropp = {};
    if (zeropp.any() && fewer.plan.data_ranks() % zeropp.group != 0) zeropp.group = fewer.plan.data_ranks();
    fewer.train.global_batch = subject.train.global_batch * dp / subject.plan.dp;
    fewer.cluster.gpus = gpus;
    const CaseReport report = simulate_plain(fewer, environment);
    if (report.fits) return ScalingBaseline{gpus, report.tokens_per_second_per_gpu};
  }
  return ScalingBaseline{subject.plan.gpus(), 0.0};
}

}  // namespace foretrain
