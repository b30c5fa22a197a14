#include "sim/report/figure_formula.h"

#include <fmt/format.h>

#include <functional>

#include "sim/analysis/critical_path.h"
#include "sim/analysis/step_flops.h"
#include "sim/model/operators.h"
#include "sim/report/describe.h"
#include "sim/report/figures.h"

namespace foretrain::report {
namespace {

using Input = FigureFormula::Input;

// What several formulas put in.
struct Inputs {
  Input step, gpus, batch, sequence, model_flops, recomputed, peak;

  explicit Inputs(const CaseReport& r) {
    const Case& c = r.subject;
    const StepFlops flops = step_flops(c, r.step.layouts);
    step = {"T", exact_seconds(r.step_time), "s", message("step time, simulated")};
    gpus = {"n", static_cast<double>(c.plan.gpus()), "", message("GPUs")};
    batch = {"B", static_cast<double>(c.train.global_batch), "", message("sequences a step")};
    sequence = {"s", static_cast<double>(c.train.seq_len), "", message("tokens a sequence")};
    model_flops = {"F", flops.model, "FLOP", message("that the mathematics of a step needs (model_flops)")};
    recomputed = {"R", flops.recomputed, "FLOP", message("of forward passes done again")};
    peak = {"P", peak_rate(c).value, "FLOP/s",
            message("dense peak of the {} in {}", c.cluster.gpu.name, to_string(c.train.precision))};
  }
};

class Formulas {
 public:
  explicit Formulas(const CaseReport& report) : r_(report), in_(report) {}

  std::vector<FigureFormula> all() {
    add_time();
    add_rates();
    add_breakdown();
    for (FigureFormula& memory : memory_formulas(r_)) formulas_.push_back(std::move(memory));
    add_elasticities();
    add_counts();
    add_money();
    return std::move(formulas_);
  }

 private:
  void add(std::string figure, Message formula, std::vector<Input> inputs, double value, std::string unit = "") {
    formulas_.push_back({std::move(figure), std::move(formula), std::move(inputs), value, std::move(unit)});
  }
  // Of symbols alone, the same in every language.
  void add(std::string figure, const char* formula, std::vector<Input> inputs, double value, std::string unit = "") {
    add(std::move(figure), Message(std::string(formula)), std::move(inputs), value, std::move(unit));
  }

  void add_time() {
    FigureFormula time{"step_time_s", message("length of the critical path = sum over what held it"), {}, 0, "s"};
    for (const auto& [name, seconds] : critical_path(r_).held.named()) {
      time.inputs.push_back({std::string(name), seconds, "s", in_words(name)});
      time.value += seconds;
    }
    formulas_.push_back(std::move(time));
    add("step_time_ps", "1e12 T", {in_.step}, static_cast<double>(r_.step_time.ps), "ps");
  }

  void add_rates() {
    const double T = in_.step.value, n = in_.gpus.value, B = in_.batch.value, s = in_.sequence.value;
    const double F = in_.model_flops.value, R = in_.recomputed.value, P = in_.peak.value;
    add("tokens_per_s", "B s / T", {in_.batch, in_.sequence, in_.step}, B * s / T, "1/s");
    add("tokens_per_s_per_gpu", "B s / (T n)", {in_.batch, in_.sequence, in_.step, in_.gpus}, B * s / T / n, "1/s");
    add("samples_per_s", "B / T", {in_.batch, in_.step}, B / T, "1/s");
    add_model_flops();
    add("model_tflops_per_gpu", "F / (T n 1e12)", {in_.model_flops, in_.step, in_.gpus}, F / T / n / 1e12, "TFLOP/s");
    if (P > 0) {
      add("mfu", "F / (T n P)", {in_.model_flops, in_.step, in_.gpus, in_.peak}, F / T / n / P);
      add("hfu", "(F + R) / (T n P)", {in_.model_flops, in_.recomputed, in_.step, in_.gpus, in_.peak},
          (F + R) / T / n / P);
    }
    const double bubble = exact_seconds(r_.breakdown[Cause::bubble]);
    add("bubble_fraction", "b / T",
        {{"b", bubble, "s", message("breakdown_s.bubble: the mean over all GPUs")}, in_.step}, bubble / T);
    const Input offload{"o", exact_seconds(r_.breakdown[Cause::offload]), "s", std::string("breakdown_s.offload")};
    add("offload_stall_s", "o", {offload}, offload.value, "s");
    if (r_.scaling_efficiency && *r_.scaling_efficiency > 0) {
      const double now = r_.tokens_per_second_per_gpu, base = now / *r_.scaling_efficiency;
      add("scaling_efficiency", "g / g0",
          {{"g", now, "1/s", std::string("tokens_per_s_per_gpu")},
           {"g0", base, "1/s",
            message("the same on {} GPUs, the fewest of this kind on which the plan fits", r_.scaling_baseline_gpus)}},
          now / base);
      add("scaling_baseline_gpus", message("the fewest GPUs of this kind on which the plan fits, by trying"),
          {in_.gpus}, r_.scaling_baseline_gpus);
    }
  }

  void add_model_flops() {
    const Case& c = r_.subject;
    if (c.train.peft.active()) return;  // adapters have matrices of their own
    const ForwardFlops forward = forward_flops(c.model, in_.batch.value * in_.sequence.value, c.train.seq_len);
    add("model_flops", message("3 (L + A + H): forward once, backward twice"),
        {{"L", forward.layers.value, "FLOP",
          message("forward through the matrices of all layers: 2 a parameter and token")},
         {"A", forward.attention_core.value, "FLOP", message("forward through scores and values of attention")},
         {"H", forward.head.value, "FLOP", message("forward through the LM head")}},
        3.0 * (forward.layers + forward.attention_core + forward.head).value, "FLOP");
  }

  // The mean of what each GPU spends on something. Ranks of a stage that behave alike stand together.
  void add_mean(std::string figure, const Message& of_each, const std::function<Time(const Breakdown&)>& spent) {
    FigureFormula part{std::move(figure),
                       message("sum of g t / n over the kinds of GPUs, each with g GPUs that spend t"),
                       {in_.gpus},
                       0,
                       "s"};
    for (std::size_t rank = 0; rank < r_.per_class.size() && rank < r_.step.multiplicity.size(); ++rank) {
      const double gpus = r_.step.multiplicity[rank], time = exact_seconds(spent(r_.per_class[rank]));
      const std::string index = r_.per_class.size() > 1 ? std::to_string(rank) : "";
      part.inputs.push_back({"g" + index, gpus, "", message("GPUs like it, in stage {}", r_.step.stage[rank])});
      part.inputs.push_back({"t" + index, time, "s", of_each});
      part.value += gpus * time / in_.gpus.value;
    }
    formulas_.push_back(std::move(part));
  }

  void add_breakdown() {
    for (std::size_t i = 0; i < kCauses; ++i) {
      const auto cause = static_cast<Cause>(i);
      add_mean(fmt::format("breakdown_s.{}", to_string(cause)), message("{} of each, simulated", in_words(cause)),
               [cause](const Breakdown& of) { return of[cause]; });
    }
    for (std::size_t i = 0; i < kCauses; ++i) {
      const auto cause = static_cast<Cause>(i);
      add(fmt::format("breakdown_ps.{}", to_string(cause)), "1e12 t",
          {{"t", exact_seconds(r_.breakdown[cause]), "s", fmt::format("breakdown_s.{}", to_string(cause))}},
          static_cast<double>(r_.breakdown[cause].ps), "ps");
    }
    if (!r_.host) return;
    for (std::size_t i = 0; i < kOffloadWaits; ++i) {
      const auto wait = static_cast<OffloadWait>(i);
      add_mean(fmt::format("offload_s.{}", to_string(wait)), message("{} of each, simulated", in_words(Cause::offload)),
               [wait](const Breakdown& of) { return of[wait]; });
    }
  }

  void add_elasticities() {
    if (!r_.elasticity) return;
    for (const auto& [name, value] : r_.elasticity->named()) {
      if (name == "other") {
        FigureFormula other{
            "elasticity.other", message("1 - the sum of all others: twice as fast in all is half the time"), {}, 1, ""};
        for (const auto& [rate, part] : r_.elasticity->named()) {
          if (rate == "other") continue;
          other.inputs.push_back({std::string(rate), part, "", fmt::format("elasticity.{}", rate)});
          other.value -= part;
        }
        formulas_.push_back(std::move(other));
        continue;
      }
      add(fmt::format("elasticity.{}", name),
          message("- d ln T / d ln x: steps simulated with {} a little faster and slower", in_words(name)), {in_.step},
          value);
    }
  }

  void add_counts() {
    const Plan& plan = r_.subject.plan;
    const Input tp{"tp", static_cast<double>(plan.tp), "", std::string("plan.tp")};
    const Input pp{"pp", static_cast<double>(plan.pp), "", std::string("plan.pp")};
    const Input dp{"dp", static_cast<double>(plan.dp), "", std::string("plan.dp")};
    const Input cp{"cp", static_cast<double>(plan.cp), "", std::string("plan.cp")};
    const Input micro{"b", static_cast<double>(plan.micro_batch), "", std::string("plan.micro_batch")};
    add("total_ranks", "tp cp pp dp", {tp, cp, pp, dp}, plan.gpus());
    if (plan.shares.empty())
      add("micro_batches", "B / (dp b)", {in_.batch, dp, micro}, static_cast<double>(r_.step.micro_batches));
    add("simulated_ranks", message("kinds of ranks that cannot differ, found by the symmetry of plan and cluster"),
        {in_.gpus}, r_.step.simulated_ranks);
    add("events", message("starts and ends of tasks in the simulated step"),
        {{"t", static_cast<double>(r_.step.tasks.size()), "", message("tasks of the step")}},
        static_cast<double>(r_.schedule.events));
  }

  void add_money() {
    const Case& c = r_.subject;
    const Input tokens_per_second{"v", r_.tokens_per_second, "1/s", std::string("tokens_per_s")};
    if (r_.hours) {
      add("cost.hours", "N / (v 3600)",
          {{"N", c.train.tokens, "", message("tokens of the whole job")}, tokens_per_second},
          c.train.tokens / r_.tokens_per_second / 3600.0, "h");
    }
    if (!c.price) return;
    const Price& p = *c.price;
    const Input price{"m", p.amount.middle(), p.currency, message("of the cluster a {}", in_words(p.per))};
    const Input period{"p", p.period_hours(), "h", message("which is so long")};
    if (r_.cost && r_.hours) {
      const bool as_used = !p.whole_periods && p.terms.empty() && *r_.hours >= p.minimum_hours;
      add("cost.amount",
          as_used ? Message(std::string("H m / p")) : message("the cheapest of the terms for H hours at m / p"),
          {{"H", *r_.hours, "h", std::string("cost.hours")}, price, period}, p.cost(*r_.hours).middle(), p.currency);
    }
    add("cost.per_billion_tokens", "1e9 / (v 3600) m / p", {tokens_per_second, price, period},
        p.per_hour().middle() * 1e9 / r_.tokens_per_second / 3600.0, p.currency);
  }

  const CaseReport& r_;
  Inputs in_;
  std::vector<FigureFormula> formulas_;
};

}  // namespace

std::vector<FigureFormula> figure_formulas(const CaseReport& report) { return Formulas(report).all(); }

}  // namespace foretrain::report
