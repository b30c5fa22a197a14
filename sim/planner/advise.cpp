#include "sim/planner/advise.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sim/planner/why_not.h"

namespace foretrain {
namespace {

// Beyond this many GPUs a search for every free change takes longer than a user waits.
constexpr int kMostGpusToPlanAgain = 64;
// The cluster is enlarged at most so many times for a deadline.
constexpr int kMostTimesLarger = 8;

// What was fixed, but for how the model is spread: that is for the size to decide.
PlanRequest open_request(const Case& c) {
  PlanRequest request = c.open_plan.value_or(PlanRequest{});
  request.automatic = true;
  request.tp = request.pp = request.vpp = request.dp = request.cp = request.ep = request.etp = std::nullopt;
  request.zero = request.shard_group = request.micro_batch = std::nullopt;
  request.sequence_parallel = std::nullopt;
  request.layers = std::nullopt;
  request.schedule = std::nullopt;
  request.recompute = std::nullopt;
  request.micro_batch_auto = false;
  if (!request.offload) request.offload = PlanRequest::OffloadRequest{};  // a step of its own, after what is free
  return request;
}

Message moved_to_host(const Offload& offload) {
  return offload.params == Offload::Place::gpu ? message("optimizer in host memory")
                                               : message("optimizer and weights in host memory");
}

// Recompute and accumulation: what the best plan has chosen already, to be seen beside the rest.
std::vector<CaseChange> plan_changes() {
  std::vector<CaseChange> all = software_switches();
  std::erase_if(all, [](const CaseChange& change) {
    return change.name != "no-recompute" && change.name != "full-recompute" && change.name != "micro-batch-half" &&
           change.name != "micro-batch-double";
  });
  return all;
}

class Adviser {
 public:
  Adviser(const Case& subject, const Environment& environment, const AdviseOptions& options)
      : subject_(subject), environment_(environment), options_(options) {
    options_.search.top = 1;
    if (options_.tokens <= 0) options_.tokens = subject.train.tokens;
    subject_.open_plan = open_request(subject);
  }

  std::optional<Advice> advice(Diagnostics& diagnostics) {
    Advice a;
    a.name = subject_.name;
    a.subject = subject_;
    // Every size is searched, and then looked at for what is free there.
    const std::vector<int> all = sizes();
    const auto tell = [&](std::size_t done, int gpus) {
      if (options_.progress) options_.progress(gpus, static_cast<double>(done) / static_cast<double>(2 * all.size()));
    };
    for (const int gpus : all) {
      if (stopped() && !a.sizes.empty()) break;
      tell(a.sizes.size(), gpus);
      a.sizes.push_back(sized(gpus));
    }
    if (std::all_of(a.sizes.begin(), a.sizes.end(), [](const auto& s) { return !s.why_not.empty(); })) {
      diagnostics.error(subject_.position, a.sizes.back().why_not);
      return std::nullopt;
    }
    for (std::size_t i = 0; i < a.sizes.size() && !settled(a); ++i) {
      tell(all.size() + i, a.sizes[i].gpus);
      consider(a, i);
    }
    for (int times = 2; !settled(a) && !stopped() && times <= kMostTimesLarger && can_grow(); times *= 2) {
      tell(2 * all.size(), subject_.cluster.gpus * times);
      a.sizes.push_back(sized(subject_.cluster.gpus * times));
      consider(a, a.sizes.size() - 1);
    }
    a.complete = !stopped();
    return a;
  }

  Advice::Size whole() const {
    Advice::Size size = sized(subject_.cluster.gpus);
    if (size.answer() != nullptr) add_free_changes(size);
    return size;
  }

 private:
  bool stopped() const { return options_.search.stop != nullptr && *options_.search.stop; }

  bool can_grow() const {
    return subject_.cluster.nics > 0 && subject_.cluster.gpus % subject_.cluster.gpus_per_node == 0;
  }

  // One card, powers of two up to a node, the whole cluster.
  std::vector<int> sizes() const {
    const ClusterDescription& c = subject_.cluster;
    std::vector<int> sizes;
    for (int gpus = 1; gpus < std::min(c.gpus, c.gpus_per_node); gpus *= 2) sizes.push_back(gpus);
    if (c.gpus > c.gpus_per_node) sizes.push_back(c.gpus_per_node);
    sizes.push_back(c.gpus);
    return sizes;
  }

  Advice::Answer answer_of(const CaseReport& report, Case subject) const {
    subject.plan = report.subject.plan;
    subject.open_plan.reset();
    Advice::Answer answer{std::move(subject), outcome_of(report), {}};
    // Steps as described: packed sequences hold the same samples.
    const double a_step = static_cast<double>(subject_.train.global_batch * subject_.train.seq_len);
    if (options_.tokens > 0) answer.seconds = options_.tokens / a_step * answer.outcome.step_time.seconds();
    return answer;
  }

  // The best plan that fits, if there is one; what the nearest lacks is added to `size` otherwise.
  std::optional<Advice::Answer> best(const Case& c, Advice::Size* size = nullptr) const {
    Diagnostics said;
    const auto found = find_plans(c, environment_, options_.search, said);
    if (found && !found->best.empty()) return answer_of(found->best.front().report, c);
    if (size != nullptr && !found) size->why_not = why_no_plan(said);
    if (size != nullptr && found && found->nearest_miss) size->missing = found->nearest_miss->missing;
    return std::nullopt;
  }

  Advice::Size sized(int gpus) const {
    Advice::Size size;
    size.gpus = gpus;
    Case c = subject_;
    c.cluster.gpus = gpus;
    size.best = best(c, &size);
    if (!size.best && size.why_not.empty() && !stopped()) make_fit(c, size);
    return size;
  }

  // Free changes one after another, then what can be kept in host memory beside them, or instead (8-bit states stay on
  // the GPU).
  void make_fit(const Case& as_asked, Advice::Size& size) const {
    std::vector<CaseChange> made;
    for (CaseChange& change : free_changes(0)) {
      const bool saves_memory = change.name != "fp8" && change.name != "fused-kernels";
      if (!saves_memory || !change.apply({as_asked, environment_})) continue;
      made.push_back(std::move(change));
      if (fits_with(as_asked, made, size)) return;
    }
    Case on_host = as_asked;
    on_host.open_plan->offload.reset();
    if ((!made.empty() && fits_with(on_host, made, size)) || fits_with(on_host, {}, size)) {
      size.changes.push_back(moved_to_host(size.changed->subject.plan.offload));
    }
  }

  // Whether it fits with these changes; then with those of them that must be.
  bool fits_with(const Case& as_asked, std::vector<CaseChange> made, Advice::Size& size) const {
    if (!(size.changed = best(with(as_asked, made)))) return false;
    for (std::size_t i = 0; i < made.size() && made.size() > 1;) {
      std::vector<CaseChange> others = made;
      others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
      if (auto answer = best(with(as_asked, others))) {
        size.changed = std::move(answer);
        made = std::move(others);
      } else {
        ++i;
      }
    }
    for (const CaseChange& change : made) size.changes.push_back(change.what);
    return true;
  }

  Case with(Case c, const std::vector<CaseChange>& made) const {
    for (const CaseChange& change : made) {
      if (const auto changed = change.apply({c, environment_})) c = changed->subject;
    }
    return c;
  }

  bool in_time(const Advice::Answer& answer) const {
    return options_.deadline_seconds <= 0 || !answer.seconds || *answer.seconds <= options_.deadline_seconds;
  }

  static bool settled(const Advice& a) { return a.recommended && a.meets_deadline; }

  // The fastest a size gets without more hardware.
  static const Advice::Answer& fastest(const Advice::Size& size) {
    return size.together ? *size.together : *size.answer();
  }

  // Takes the size if it is the first that does, or faster than those before it.
  void consider(Advice& a, std::size_t index) const {
    Advice::Size& size = a.sizes[index];
    if (size.answer() == nullptr) return;
    if (!stopped()) add_free_changes(size);
    const bool meets = in_time(*size.answer()) || in_time(fastest(size));
    if (meets || !a.recommended ||
        fastest(size).outcome.step_time < fastest(a.sizes[*a.recommended]).outcome.step_time) {
      a.recommended = index;
      a.meets_deadline = meets;
    }
  }

  // The case of an answer with its plan to be found anew.
  Case reopened(const Advice::Answer& answer) const {
    Case c = answer.subject;
    c.open_plan = subject_.open_plan;
    if (c.plan.offload.any())
      c.open_plan->offload = PlanRequest::OffloadRequest{
          c.plan.offload.optimizer, c.plan.offload.params, c.plan.offload.activations, std::nullopt, 1.0, false};
    return c;
  }

  void add_free_changes(Advice::Size& size) const {
    const Advice::Answer& base = *size.answer();
    const Setup as_planned{base.subject, environment_};
    const bool plan_again = base.subject.plan.gpus() <= kMostGpusToPlanAgain;
    const Case open = reopened(base);
    Case all = open;
    for (const TriedChange& tried :
         try_changes(free_changes(options_.mean_tokens), as_planned, options_.search.threads)) {
      Advice::Free free{tried.change.name, tried.change.what, tried.outcome, {}};
      const auto changed = tried.change.apply({open, environment_});
      if (plan_again && changed && !stopped()) {
        if (const auto answer = best(changed->subject)) free.best_plan = answer->outcome;
      }
      constexpr double kHelps = 0.995;
      const Outcome& reached = free.best_plan ? *free.best_plan : free.same_plan;
      if (reached.fits && reached.step_time.seconds() < kHelps * base.outcome.step_time.seconds()) {
        if (const auto more = tried.change.apply({all, environment_})) {
          all = more->subject;
          size.helpful.push_back(free.what);
        }
      }
      size.free.push_back(std::move(free));
    }
    if (!size.helpful.empty() && !stopped()) size.together = best(all);
    for (const TriedChange& tried : try_changes(plan_changes(), as_planned, options_.search.threads)) {
      size.free.push_back({tried.change.name, tried.change.what, tried.outcome, {}});
    }
  }

  Case subject_;
  const Environment& environment_;
  AdviseOptions options_;
};

// A change of the training alone, which needs no plan: cases whose plan is open are changed as well.
CaseChange of_training(std::string name, Message what, std::function<bool(Case&)> edit) {
  return {std::move(name), std::move(what), [edit = std::move(edit)](const Setup& setup) -> std::optional<Setup> {
            Setup changed = setup;
            if (!edit(changed.subject)) return std::nullopt;
            if (changed.subject.open_plan) return changed;
            auto legal = if_legal(std::move(changed.subject));
            if (!legal) return std::nullopt;
            changed.subject = std::move(*legal);
            return changed;
          }};
}

bool wide(Precision precision) { return precision == Precision::fp32 || precision == Precision::tf32; }

// The same samples in fewer sequences: as many as divide over the ranks.
bool pack(Case& c, double mean_tokens) {
  const double share = mean_tokens / static_cast<double>(c.train.seq_len);
  if (!(share > 0 && share < 1)) return false;
  const std::int64_t unit = c.open_plan ? std::gcd<std::int64_t, std::int64_t>(c.train.global_batch, c.cluster.gpus)
                                        : c.plan.dp * c.plan.micro_batch;
  const double units = std::ceil(static_cast<double>(c.train.global_batch) * share / static_cast<double>(unit));
  const std::int64_t packed = std::max<std::int64_t>(1, static_cast<std::int64_t>(units)) * unit;
  if (packed >= c.train.global_batch) return false;
  c.train.global_batch = packed;
  return true;
}

}  // namespace

std::vector<CaseChange> free_changes(double mean_tokens) {
  std::vector<CaseChange> all;
  const auto add = [&](const char* name, Message what, std::function<bool(Case&)> edit) {
    all.push_back(of_training(name, std::move(what), std::move(edit)));
  };
  add("flash-attention", message("FlashAttention 2"), [](Case& c) {
    if (c.train.attention != AttentionKernel::standard) return false;
    c.train.attention = AttentionKernel::flash2;
    return true;
  });
  for (CaseChange& change : software_switches()) {
    if (change.name == "fused-loss" || change.name == "fused-kernels") all.push_back(std::move(change));
  }
  add("16-bit", message("16-bit precision"), [](Case& c) {
    if (!wide(c.train.precision)) return false;
    for (const Precision precision : {Precision::bf16, Precision::fp16}) {
      if (!c.cluster.gpu.dense(precision)) continue;
      c.train.precision = precision;
      return true;
    }
    return false;
  });
  add("fp8", message("fp8 for linear layers"), [](Case& c) {
    if (is_quantised(c.train.precision) || !c.cluster.gpu.dense(Precision::fp8) || c.train.peft.active()) return false;
    c.train.precision = Precision::fp8;
    return true;
  });
  add("8-bit-optimizer", message("8-bit AdamW"), [](Case& c) {
    if (c.train.optimizer != Optimizer::adamw) return false;
    c.train.optimizer = Optimizer::adamw8bit;
    return true;
  });
  add("4-bit-weights", message("frozen weights in 4 bits (QLoRA)"), [](Case& c) {
    if (c.train.peft.kind != Peft::Kind::lora) return false;
    c.train.peft.kind = Peft::Kind::qlora;
    c.train.peft.format = weight_format("nf4");
    return true;
  });
  if (mean_tokens > 0) {
    all.push_back(of_training("sequence-packing", message("sequence packing"),
                              [mean_tokens](Case& c) { return pack(c, mean_tokens); }));
  }
  return all;
}

std::optional<Advice> advise(const Case& subject, const Environment& environment, const AdviseOptions& options,
                             Diagnostics& diagnostics) {
  return Adviser(subject, environment, options).advice(diagnostics);
}

Advice::Size advise_size(const Case& subject, const Environment& environment, const AdviseOptions& options) {
  return Adviser(subject, environment, options).whole();
}

}  // namespace foretrain
