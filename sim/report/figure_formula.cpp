#include "sim/report/figure_formula.h"

#include <fmt/format.h>

#include <cmath>
#include <numeric>

#include "sim/analysis/critical_path.h"
#include "sim/analysis/step_flops.h"
#include "sim/model/operators.h"
#include "sim/plan/optimizer.h"
#include "sim/report/describe.h"
#include "sim/report/figures.h"
#include "sim/report/run_report.h"

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
    add_memory();
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
    if (r_.scaling_efficiency && *r_.scaling_efficiency > 0) {
      const double now = r_.tokens_per_second_per_gpu, base = now / *r_.scaling_efficiency;
      add("scaling_efficiency", "g / g0",
          {{"g", now, "1/s", std::string("tokens_per_s_per_gpu")},
           {"g0", base, "1/s",
            message("the same on {} GPUs, the fewest of this kind on which the plan fits", r_.scaling_baseline_gpus)}},
          now / base);
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

  // Ranks of a stage that behave alike stand together.
  void add_breakdown() {
    for (std::size_t i = 0; i < kCauses; ++i) {
      const auto cause = static_cast<Cause>(i);
      FigureFormula part{fmt::format("breakdown_s.{}", to_string(cause)),
                         message("sum of g t / n over the kinds of GPUs, each with g GPUs that spend t"),
                         {in_.gpus},
                         0,
                         "s"};
      for (std::size_t rank = 0; rank < r_.per_class.size() && rank < r_.step.multiplicity.size(); ++rank) {
        const double gpus = r_.step.multiplicity[rank], time = exact_seconds(r_.per_class[rank][cause]);
        const std::string index = r_.per_class.size() > 1 ? std::to_string(rank) : "";
        part.inputs.push_back({"g" + index, gpus, "", message("GPUs like it, in stage {}", r_.step.stage[rank])});
        part.inputs.push_back({"t" + index, time, "s", message("{} of each, simulated", in_words(cause))});
        part.value += gpus * time / in_.gpus.value;
      }
      formulas_.push_back(std::move(part));
    }
  }

  void add_memory() {
    if (r_.fullest >= r_.memory.size()) return;
    const StagePeak& peak = r_.memory[r_.fullest];
    FigureFormula total{
        "memory.gpu_peak_bytes", message("sum of memory.parts at the worst moment of the step"), {}, 0, "bytes"};
    for (const auto& [name, bytes] : whole_bytes(peak).parts) {
      total.inputs.push_back({name, static_cast<double>(bytes), "bytes", "memory.parts." + name});
      total.value += static_cast<double>(bytes);
    }
    formulas_.push_back(std::move(total));
    add_states(peak);
  }

  // Where states are nothing but bytes a parameter; adapters, experts and offloaded states are booked apart.
  void add_states(const StagePeak& peak) {
    const Case& c = r_.subject;
    if (c.train.peft.active() || c.model.experts > 0 || c.plan.offload.any()) return;
    const auto stage = static_cast<std::size_t>(peak.stage);
    if (stage >= r_.step.layouts.size()) return;
    const Software::StateBytes bytes = state_bytes(c.software, c.train, c.plan.zero);
    const Input parameters{"p", r_.step.layouts[stage].parameters(), "",
                           message("parameters of stage {} on one tensor-parallel rank", stage)};
    const auto add_part = [&](const char* name, double each, int from_stage, Bytes booked) {
      const double ranks = c.plan.zero >= from_stage ? c.plan.shard_ranks() : 1;
      const double value = parameters.value * each / ranks;
      if (std::abs(value - booked.value) > 1 + 1e-9 * booked.value) return;  // the framework keeps more than that
      add(fmt::format("memory.parts.{}", name), "p b / z",
          {parameters,
           {"b", each, "bytes", message("a parameter, as {} keeps them", c.software.name)},
           {"z", ranks, "",
            ranks > 1 ? message("ranks that ZeRO-{} shards them over", c.plan.zero) : message("no ranks share them")}},
          std::round(value), "bytes");
    };
    add_part("weights", bytes.weights, 3, peak.parts.weights);
    add_part("gradients", bytes.gradients, 2, peak.parts.gradients);
    add_part("optimizer", bytes.optimizer, 1, peak.parts.optimizer);
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
