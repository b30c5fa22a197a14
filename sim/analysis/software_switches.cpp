#include <algorithm>
#include <cmath>

#include "sim/analysis/case_change.h"

namespace foretrain {
namespace {

template <class Value>
bool set(Value& value, const Value& wanted) {
  if (value == wanted) return false;
  value = wanted;
  return true;
}

bool is_flash(AttentionKernel kernel) { return kernel != AttentionKernel::standard; }

// What another profile's kernels leave of the elementwise passes, where that is less.
bool fuse(Software::ElementwisePasses& passes, const Software::ElementwisePasses& fused) {
  const Software::ElementwisePasses least{std::min(passes.hidden, fused.hidden),
                                          std::min(passes.attention, fused.attention), std::min(passes.ffn, fused.ffn),
                                          std::min(passes.kernels, fused.kernels)};
  const bool less = least.hidden < passes.hidden || least.attention < passes.attention || least.ffn < passes.ffn ||
                    least.kernels < passes.kernels;
  passes = least;
  return less;
}

bool overlap_reduction(Case& c, bool wanted) {
  if (c.plan.data_ranks() == 1) return false;
  return c.plan.zero == 3 ? set(c.software.zero3_overlap, wanted) : set(c.plan.overlap.grad_reduce, wanted);
}

bool scale_buckets(Software& s, double factor) {
  if (!std::isfinite(s.bucket_bytes)) return false;
  s.bucket_bytes *= factor;
  s.bucket_bytes_per_rank *= factor;
  return true;
}

bool recompute(Plan& plan, Recompute::Mode mode) {
  if (plan.recompute.mode == mode) return false;
  plan.recompute = {mode, 0, {}};
  return true;
}

bool micro_batch(Case& c, double factor) {
  if (!c.plan.shares.empty()) return false;
  const double wanted = static_cast<double>(c.plan.micro_batch) * factor;
  c.plan.micro_batch = static_cast<std::int64_t>(wanted);
  return wanted >= 1 && wanted == std::floor(wanted);
}

bool zero_stage(Plan& plan, int stage) {
  if (plan.data_ranks() == 1 || stage < 0 || stage > 3 || plan.offload.any()) return false;
  return set(plan.zero, stage);
}

}  // namespace

std::vector<CaseChange> software_switches() {
  using Mode = Recompute::Mode;
  std::vector<CaseChange> all;
  const auto add = [&](std::string name, Message what, std::function<bool(Case&)> edit) {
    all.push_back(change_of_case(std::move(name), std::move(what), std::move(edit)));
  };
  for (const bool on : {true, false}) {
    const std::string way = on ? "on" : "off";
    const Message beside = on ? message("beside compute") : message("not beside compute");
    add("overlap-gradients-" + way, message("data-parallel traffic {}", beside),
        [on](Case& c) { return overlap_reduction(c, on); });
    add("overlap-parameters-" + way, message("gathers of updated parameters {}", beside), [on](Case& c) {
      const bool gathers = c.plan.data_ranks() > 1 && (c.plan.zero == 1 || c.plan.zero == 2);
      return gathers && set(c.plan.overlap.param_gather, on);
    });
    add("overlap-tensor-" + way, message("tensor-parallel collectives {}", beside),
        [on](Case& c) { return c.plan.tp > 1 && set(c.plan.overlap.tp, on); });
    add("overlap-experts-" + way, message("dispatch to experts {}", beside),
        [on](Case& c) { return c.model.experts > 0 && c.plan.ep > 1 && set(c.plan.overlap.ep, on); });
    add("overlap-pipeline-" + way, message("pipeline transfers {}", beside),
        [on](Case& c) { return c.plan.pp > 1 && set(c.plan.overlap.p2p, on); });
    add("sequence-parallel-" + way,
        on ? message("sequence parallelism added") : message("sequence parallelism left out"),
        [on](Case& c) { return c.plan.tp > 1 && set(c.plan.sequence_parallel, on); });
  }
  add("flash-attention", message("FlashAttention 2 for standard attention"),
      [](Case& c) { return !is_flash(c.train.attention) && set(c.train.attention, AttentionKernel::flash2); });
  add("flash-attention-3", message("FlashAttention 3"), [](Case& c) {
    return c.cluster.gpu.architecture == "hopper" && set(c.train.attention, AttentionKernel::flash3);
  });
  add("standard-attention", message("standard attention for FlashAttention"),
      [](Case& c) { return set(c.train.attention, AttentionKernel::standard); });
  all.push_back(change_as_profile("fused-kernels", message("fused kernels (torch.compile)"), "torch-fsdp-compiled",
                                  [](Software& s, const Software& fused) {
                                    const bool forward = fuse(s.forward, fused.forward);
                                    return fuse(s.backward, fused.backward) || forward;
                                  }));
  all.push_back(change_as_profile(
      "fused-loss", message("fused LM head and loss"), "hf-trainer-liger", [](Software& s, const Software& fused) {
        const bool less = s.loss_live_bytes_per_logit > fused.loss_live_bytes_per_logit;
        s.loss_bytes_per_logit = std::min(s.loss_bytes_per_logit, fused.loss_bytes_per_logit);
        s.loss_live_bytes_per_logit = fused.loss_live_bytes_per_logit;
        s.loss_kept_bytes_per_logit = fused.loss_kept_bytes_per_logit;
        return less;
      }));
  for (const double factor : {4.0, 0.25}) {
    add(factor > 1 ? "larger-buckets" : "smaller-buckets",
        factor > 1 ? message("gradient buckets 4 x as large") : message("gradient buckets a quarter as large"),
        [factor](Case& c) { return c.plan.data_ranks() > 1 && c.plan.zero < 3 && scale_buckets(c.software, factor); });
  }
  add("no-recompute", message("no recompute"), [](Case& c) { return recompute(c.plan, Mode::none); });
  add("selective-recompute", message("selective recompute"),
      [](Case& c) { return recompute(c.plan, Mode::selective); });
  add("full-recompute", message("full recompute"), [](Case& c) { return recompute(c.plan, Mode::full); });
  for (const double bytes : {2.0, 4.0}) {
    add(bytes > 2 ? "gradients-fp32" : "gradients-16bit",
        bytes > 2 ? message("gradients reduced in fp32") : message("gradients reduced in 16 bit"), [bytes](Case& c) {
          return c.plan.data_ranks() > 1 && bytes >= element_bytes(c.train.precision) &&
                 set(c.software.gradient_bytes, bytes);
        });
  }
  add("micro-batch-double", message("twice the micro-batch"), [](Case& c) { return micro_batch(c, 2); });
  add("micro-batch-half", message("half the micro-batch"), [](Case& c) { return micro_batch(c, 0.5); });
  add("zero-more", message("the next ZeRO stage"), [](Case& c) { return zero_stage(c.plan, c.plan.zero + 1); });
  add("zero-less", message("the ZeRO stage before"), [](Case& c) { return zero_stage(c.plan, c.plan.zero - 1); });
  return all;
}

}  // namespace foretrain
