#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/analysis/case_report.h"
#include "sim/analysis/step_flops.h"

namespace foretrain {
namespace {

double per_token(const CaseReport& r) { return 1.0 / r.tokens_per_second; }

double peak_flops(const CaseReport& r) { return peak_rate(r.subject).value * r.subject.plan.gpus(); }

struct Loss {
  double share;  // of the step
  Message what;
};

std::string whole_percent(double share) { return fmt::format("{:.0f}", 100 * share); }

// What a case spends beside the mathematics, largest first.
std::vector<Loss> losses(const CaseReport& r) {
  const double step = r.step_time.seconds();
  const Plan& plan = r.subject.plan;
  std::vector<Loss> all;
  auto add = [&](double seconds, Message what) { all.push_back({seconds / step, std::move(what)}); };
  const double compute = r.breakdown[Cause::compute].seconds();
  add(r.hfu > 0 ? compute * (1.0 - r.mfu / r.hfu) : 0.0, message("recompute"));
  add(r.breakdown[Cause::tp_comm].seconds(), message("tensor-parallel communication (tp {})", plan.tp));
  add(r.breakdown[Cause::ep_comm].seconds(), message("exchanges with experts (ep {})", plan.ep));
  add(r.breakdown[Cause::zero_comm].seconds(),
      plan.zero == 3 ? message("ZeRO-3 gathers and scatters") : message("ZeRO-{} gathers", plan.zero));
  add(r.breakdown[Cause::dp_comm].seconds(), message("gradient reduction"));
  add(r.breakdown[Cause::pp_comm].seconds(), message("pipeline transfers"));
  add(r.breakdown[Cause::bubble].seconds(), message("pipeline bubble"));
  add(r.breakdown[Cause::launch].seconds(), message("waiting for the host to launch kernels"));
  add(r.breakdown[Cause::optimizer].seconds(), message("the optimizer"));
  add(r.breakdown[OffloadWait::copy_in].seconds(), message("copies from the host"));
  add(r.breakdown[OffloadWait::copy_out].seconds(), message("copies to the host"));
  add(r.breakdown[OffloadWait::host_optimizer].seconds(), message("the optimizer on the host"));
  add(r.breakdown[OffloadWait::nvme].seconds(), message("NVMe drives"));
  std::stable_sort(all.begin(), all.end(), [](const Loss& a, const Loss& b) { return a.share > b.share; });
  std::erase_if(all, [](const Loss& loss) { return loss.share < 0.01; });
  if (all.size() > 2) all.resize(2);
  return all;
}

Message spends(const CaseReport& r) {
  std::vector<Message> parts;
  for (const Loss& loss : losses(r)) parts.push_back(message("{} % on {}", whole_percent(loss.share), loss.what));
  return parts.empty() ? message("nothing to speak of beside the mathematics") : joined(parts, message(" and "));
}

std::string gpus_of(const CaseReport& r) {
  return fmt::format("{} x {}", r.subject.plan.gpus(), r.subject.cluster.gpu.full_name());
}

std::vector<Message> reasons(const CaseReport& winner, const CaseReport& second, Scenario::Ask ask) {
  std::vector<Message> all;
  const double flops = peak_flops(winner) / peak_flops(second);
  if (ask == Scenario::Ask::faster && std::abs(std::log(flops)) > 0.05) {
    const std::string ratio = fmt::format("{:.2f}", flops);
    all.push_back(flops > 1 ? message("it has {} x the peak FLOPs", ratio)
                            : message("although it has {} x the peak FLOPs", ratio));
  }
  for (const CaseReport* r : {&winner, &second}) all.push_back(message("{} spends {}", r->name, spends(*r)));
  return all;
}

// Cases that do the same work can be compared; others cannot.
bool same_work(const CaseReport& a, const CaseReport& b) {
  const Model &x = a.subject.model, &y = b.subject.model;
  return a.subject.train.seq_len == b.subject.train.seq_len && x.layers == y.layers && x.hidden == y.hidden &&
         x.parameters() == y.parameters();
}

Message sureness(const std::optional<double>& likelihood) {
  return likelihood ? message(" (order right with {} %)", whole_percent(*likelihood)) : Message{};
}

Message lacking(const CaseReport& r) {
  const Bytes gpu = r.memory[r.fullest].needed - r.capacity;
  const bool of_host = gpu.value <= 0 && !r.host_fits();
  const std::string gib =
      fmt::format("{:.1f}", (of_host ? r.host->parts.total() - *r.host_capacity : gpu).value / kGiB);
  return of_host ? message("{} does not fit ({} GiB of host memory missing)", r.name, gib)
                 : message("{} does not fit ({} GiB missing a GPU)", r.name, gib);
}

// A verdict on cases that do the same work: one finding.
Verdict judge_group(Scenario::Ask ask, const std::vector<const CaseReport*>& group, const OrderLikelihood& likelihood) {
  std::vector<const CaseReport*> fitting;
  std::vector<Message> lacks;
  for (const CaseReport* r : group) {
    if (r->fits)
      fitting.push_back(r);
    else
      lacks.push_back(lacking(*r));
  }
  Verdict verdict;
  if (fitting.empty()) {
    verdict.findings = {{message("no case fits"), lacks}};
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
    verdict.findings = {{message("{} ({}) is the only case that fits", winner.name, gpus_of(winner)), lacks}};
    return verdict;
  }
  const CaseReport& second = *fitting[1];
  verdict.ratio = measure(&second) / measure(&winner);
  if (likelihood) verdict.likelihood = likelihood(winner, second, verdict.ratio);
  const std::string ratio = fmt::format("{:.2f}", verdict.ratio);
  const Message sure = sureness(verdict.likelihood);
  Finding& finding = verdict.findings.emplace_back();
  finding.said = by_cost ? message("{} is {} x cheaper than {}{}", winner.name, ratio, second.name, sure)
                         : message("{} is {} x faster than {}{}", winner.name, ratio, second.name, sure);
  finding.reasons = reasons(winner, second, ask);
  finding.reasons.insert(finding.reasons.end(), lacks.begin(), lacks.end());
  return verdict;
}

}  // namespace

Verdict judge(const Scenario& scenario, const std::vector<CaseReport>& reports, const OrderLikelihood& likelihood) {
  if (reports.size() == 1) {
    const CaseReport& only = reports.front();
    Verdict verdict = judge_group(scenario.ask, {&only}, likelihood);
    if (only.fits) {
      verdict.findings = {
          {message("{} takes {} s a step ({} % MFU)", only.name, fmt::format("{:.4g}", only.step_time.seconds()),
                   fmt::format("{:.1f}", 100 * only.mfu)),
           {message("it spends {}", spends(only))}}};
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
    if (i == 0) {
      verdict = part;
      continue;
    }
    Finding& added = verdict.findings.emplace_back(part.findings.front());
    added.said = message("with {}: {}", groups[i].front()->subject.model.name, added.said);
  }
  return verdict;
}

std::string Verdict::because() const {
  std::string text;
  for (const Finding& finding : findings) {
    text += (text.empty() ? "" : ". ") + finding.said.english();
    for (std::size_t i = 0; i < finding.reasons.size(); ++i)
      text += (i == 0 ? ": " : "; ") + finding.reasons[i].english();
  }
  return text;
}

}  // namespace foretrain
