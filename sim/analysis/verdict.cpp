#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/analysis/case_report.h"

namespace foretrain {
namespace {

double per_token(const CaseReport& r) { return 1.0 / r.tokens_per_second; }

double peak_flops(const CaseReport& r) {
  const Gpu& gpu = r.subject.cluster.gpu;
  const auto dense = gpu.dense(r.subject.train.precision);
  return (dense ? dense->value : gpu.dense(Precision::fp32).value_or(FlopsPerSecond{1}).value) * r.subject.plan.gpus();
}

struct Loss {
  double share;  // of the step
  std::string what;
};

// What a case spends beside the mathematics, largest first.
std::vector<Loss> losses(const CaseReport& r) {
  const double step = r.step_time.seconds();
  const Plan& plan = r.subject.plan;
  std::vector<Loss> all;
  auto add = [&](double seconds, std::string what) { all.push_back({seconds / step, std::move(what)}); };
  const double compute = r.breakdown[Cause::compute].seconds();
  add(r.hfu > 0 ? compute * (1.0 - r.mfu / r.hfu) : 0.0, "recompute");
  add(r.breakdown[Cause::tp_comm].seconds(), fmt::format("tensor-parallel communication (tp {})", plan.tp));
  add(r.breakdown[Cause::ep_comm].seconds(), fmt::format("exchanges with experts (ep {})", plan.ep));
  add(r.breakdown[Cause::zero_comm].seconds(),
      fmt::format("ZeRO-{} gathers{}", plan.zero, plan.zero == 3 ? " and scatters" : ""));
  add(r.breakdown[Cause::dp_comm].seconds(), "gradient reduction");
  add(r.breakdown[Cause::pp_comm].seconds(), "pipeline transfers");
  add(r.breakdown[Cause::bubble].seconds(), "pipeline bubble");
  add(r.breakdown[Cause::launch].seconds(), "waiting for the host to launch kernels");
  add(r.breakdown[Cause::optimizer].seconds(), "the optimizer");
  add(r.breakdown[OffloadWait::copy_in].seconds(), "copies from the host");
  add(r.breakdown[OffloadWait::copy_out].seconds(), "copies to the host");
  add(r.breakdown[OffloadWait::host_optimizer].seconds(), "the optimizer on the host");
  add(r.breakdown[OffloadWait::nvme].seconds(), "NVMe drives");
  std::stable_sort(all.begin(), all.end(), [](const Loss& a, const Loss& b) { return a.share > b.share; });
  std::erase_if(all, [](const Loss& loss) { return loss.share < 0.01; });
  if (all.size() > 2) all.resize(2);
  return all;
}

std::string spends(const CaseReport& r) {
  std::string text;
  for (const Loss& loss : losses(r)) {
    text += fmt::format("{}{:.0f} % on {}", text.empty() ? "" : " and ", 100 * loss.share, loss.what);
  }
  return text.empty() ? "nothing to speak of beside the mathematics" : text;
}

std::string gpus_of(const CaseReport& r) {
  return fmt::format("{} x {}", r.subject.plan.gpus(), r.subject.cluster.gpu.name);
}

std::string reason(const CaseReport& winner, const CaseReport& second, Scenario::Ask ask) {
  const double flops = peak_flops(winner) / peak_flops(second);
  std::string text;
  if (ask == Scenario::Ask::faster && std::abs(std::log(flops)) > 0.05) {
    text = flops > 1 ? fmt::format("it has {:.2f} x the peak FLOPs; ", flops)
                     : fmt::format("although it has {:.2f} x the peak FLOPs; ", flops);
  }
  return text + fmt::format("{} spends {}, {} {}", winner.name, spends(winner), second.name, spends(second));
}

// Cases that do the same work can be compared; others cannot.
bool same_work(const CaseReport& a, const CaseReport& b) {
  const Model &x = a.subject.model, &y = b.subject.model;
  return a.subject.train.seq_len == b.subject.train.seq_len && x.layers == y.layers && x.hidden == y.hidden &&
         x.parameters() == y.parameters();
}

std::string sureness(const std::optional<double>& likelihood) {
  return likelihood ? fmt::format(" (order right with {:.0f} %)", 100 * *likelihood) : "";
}

Verdict judge_group(Scenario::Ask ask, const std::vector<const CaseReport*>& group, const OrderLikelihood& likelihood) {
  std::vector<const CaseReport*> fitting;
  std::string missing;
  for (const CaseReport* r : group) {
    if (r->fits) {
      fitting.push_back(r);
    } else {
      const Bytes gpu = r->memory[r->fullest].needed - r->capacity;
      const bool of_host = gpu.value <= 0 && !r->host_fits();
      missing += fmt::format("{}{} does not fit ({:.1f} GiB {})", missing.empty() ? "" : ", ", r->name,
                             (of_host ? r->host->parts.total() - *r->host_capacity : gpu).value / kGiB,
                             of_host ? "of host memory missing" : "missing a GPU");
    }
  }
  Verdict verdict;
  if (fitting.empty()) {
    verdict.because = "no case fits: " + missing;
    return verdict;
  }
  const bool by_cost =
      ask == Scenario::Ask::cheaper && std::all_of(fitting.begin(), fitting.end(), [&](const auto* r) {
        return r->cost_per_billion_tokens && r->subject.price->currency == fitting.front()->subject.price->currency;
      });
  auto measure = [&](const CaseReport* r) { return by_cost ? *r->cost_per_billion_tokens : per_token(*r); };
  std::stable_sort(fitting.begin(), fitting.end(),
                   [&](const auto* a, const auto* b) { return measure(a) < measure(b); });
  const CaseReport& winner = *fitting.front();
  verdict.winner = winner.name;
  if (fitting.size() == 1) {
    verdict.because = fmt::format("{} ({}) is the only case that fits{}{}", winner.name, gpus_of(winner),
                                  missing.empty() ? "" : ": ", missing);
    return verdict;
  }
  const CaseReport& second = *fitting[1];
  verdict.ratio = measure(&second) / measure(&winner);
  if (likelihood) verdict.likelihood = likelihood(winner, second, verdict.ratio);
  verdict.because =
      fmt::format("{} is {:.2f} x {} than {}{}: {}", winner.name, verdict.ratio, by_cost ? "cheaper" : "faster",
                  second.name, sureness(verdict.likelihood), reason(winner, second, ask));
  if (!missing.empty()) verdict.because += "; " + missing;
  return verdict;
}

}  // namespace

Verdict judge(const Scenario& scenario, const std::vector<CaseReport>& reports, const OrderLikelihood& likelihood) {
  if (reports.size() == 1) {
    const CaseReport& only = reports.front();
    Verdict verdict = judge_group(scenario.ask, {&only}, likelihood);
    if (only.fits) {
      verdict.because = fmt::format("{} takes {:.4g} s a step ({:.1f} % MFU): it spends {}", only.name,
                                    only.step_time.seconds(), 100 * only.mfu, spends(only));
    }
    return verdict;
  }
  std::vector<std::vector<const CaseReport*>> groups;
  for (const CaseReport& r : reports) {
    const auto group =
        std::find_if(groups.begin(), groups.end(), [&](const auto& g) { return same_work(*g.front(), r); });
    if (group == groups.end())
      groups.push_back({&r});
    else
      group->push_back(&r);
  }
  // The question is about the first case's work; the rest is added.
  Verdict verdict;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const Verdict part = judge_group(scenario.ask, groups[i], likelihood);
    if (i == 0)
      verdict = part;
    else
      verdict.because += fmt::format(". With {}: {}", groups[i].front()->subject.model.name, part.because);
  }
  return verdict;
}

}  // namespace foretrain
