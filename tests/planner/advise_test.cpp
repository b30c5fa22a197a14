#include "sim/planner/advise.h"

#include <doctest/doctest.h>

#include "tests/support/cases.h"

using namespace foretrain;
using namespace foretrain::testing;

namespace {

Case open_case(const std::string& model, const std::string& cluster, const std::string& train) {
  Case c = case_of("model: " + model + "\nsoftware: deepspeed\ncluster: " + cluster + "\ntrain: " + train + "\n");
  c.open_plan = PlanRequest{};
  return c;
}

const std::string kNode = "{gpu: a100-sxm4-80gb, gpus: 8, gpus_per_node: 8, intra: nvswitch}";

Advice advice_of(const Case& c, AdviseOptions options = {}) {
  options.search.threads = 2;
  Diagnostics said;
  const auto advice = advise(c, environment(), options, said);
  REQUIRE(advice);
  return *advice;
}

}  // namespace

TEST_CASE("a small model goes on one card, and everything that is advised has been simulated") {
  const Advice a =
      advice_of(open_case("{arch: llama, layers: 8, hidden: 2048, heads: 16, ffn: 5632, vocab: 32000}", kNode,
                          "{seq_len: 1024, global_batch: 16, precision: fp32, attention: standard}"));
  REQUIRE(a.recommended);
  CHECK(a.sizes[*a.recommended].gpus == 1);
  REQUIRE(a.sizes.size() == 4);  // 1, 2, 4, 8
  const Advice::Answer& base = *a.sizes[0].answer();
  CHECK(base.outcome.step_time == step_time(base.subject, environment()));
  bool flash = false, precision = false;
  for (const Advice::Free& f : a.sizes[*a.recommended].free) {
    flash = flash || (f.name == "flash-attention" && f.same_plan.step_time < base.outcome.step_time);
    precision = precision || (f.name == "16-bit" && f.same_plan.step_time < base.outcome.step_time);
    // The same plan is one of those that are looked through.
    if (f.best_plan && f.same_plan.fits) CHECK(f.best_plan->step_time <= f.same_plan.step_time);
  }
  CHECK(flash);
  CHECK(precision);
  const auto& together = a.sizes[*a.recommended].together;
  REQUIRE(together);
  CHECK(together->outcome.step_time < base.outcome.step_time);
  CHECK(together->outcome.step_time == step_time(together->subject, environment()));
}

TEST_CASE("a model that is too large for a card needs several, or its states on the host") {
  const Advice a = advice_of(open_case("llama-2-7b", kNode, "{seq_len: 1024, global_batch: 16, precision: bf16}"));
  REQUIRE(a.recommended);
  for (std::size_t i = 0; i < *a.recommended; ++i) CHECK(a.sizes[i].answer() == nullptr);
  CHECK_FALSE(a.sizes[0].best);  // 16 bytes a parameter
  if (a.sizes[0].changed) CHECK_FALSE(a.sizes[0].changes.empty());
}

TEST_CASE("what makes it fit is no more than must be") {
  Case c = open_case("llama-2-13b", "{gpu: rtx3090-24gb, gpus: 1, gpus_per_node: 1, intra: pcie}",
                     "{seq_len: 1024, global_batch: 8, precision: bf16, peft: lora}");
  c.software.offers.offload_alone = false;
  const Advice a = advice_of(c);
  REQUIRE(a.recommended);
  const Advice::Size& size = a.sizes.front();
  CHECK_FALSE(size.best);
  REQUIRE(size.changed);
  // 13e9 frozen weights in 16 bits are 26 GB.
  REQUIRE(size.changes.size() == 1);
  CHECK(size.changes.front() == message("frozen weights in 4 bits (QLoRA)"));
  CHECK(size.changed->subject.train.peft.kind == Peft::Kind::qlora);
  CHECK(size.changed->outcome.fits);
}

TEST_CASE("a deadline asks for more cards than memory does") {
  const Case c = open_case("{arch: llama, layers: 8, hidden: 2048, heads: 16, ffn: 5632, vocab: 32000}", kNode,
                           "{seq_len: 1024, global_batch: 64, precision: bf16}");
  AdviseOptions options;
  options.tokens = 1e9;
  const Advice relaxed = advice_of(c, options);
  REQUIRE(relaxed.recommended);
  const double seconds = *relaxed.sizes[0].answer()->seconds;
  CHECK(relaxed.meets_deadline);
  // More than free changes save, less than four cards do.
  options.deadline_seconds = seconds * 0.3;
  const Advice hurried = advice_of(c, options);
  CHECK(hurried.meets_deadline);
  CHECK(hurried.sizes[*hurried.recommended].gpus > 1);
  CHECK(hurried.sizes[*hurried.recommended].gpus <= 4);
  // Free changes come before more hardware.
  REQUIRE(relaxed.sizes[0].together);
  options.deadline_seconds = *relaxed.sizes[0].together->seconds * 1.01;
  CHECK(options.deadline_seconds < seconds);
  CHECK(advice_of(c, options).sizes[*advice_of(c, options).recommended].gpus == 1);
  options.deadline_seconds = seconds * 1e-3;
  const Advice late = advice_of(c, options);
  CHECK_FALSE(late.meets_deadline);
  CHECK(late.sizes[*late.recommended].gpus == 8);  // the fastest there is
}

TEST_CASE("packing saves what padding wastes") {
  Case c = open_case("{arch: llama, layers: 8, hidden: 2048, heads: 16, ffn: 5632, vocab: 32000}",
                     "{gpu: a100-sxm4-80gb, gpus: 1, gpus_per_node: 1, intra: nvswitch}",
                     "{seq_len: 2048, global_batch: 64, precision: bf16}");
  AdviseOptions options;
  options.mean_tokens = 512;
  const Advice a = advice_of(c, options);
  REQUIRE(a.recommended);
  const Outcome& now = a.sizes[0].answer()->outcome;
  for (const Advice::Free& f : a.sizes[*a.recommended].free) {
    if (f.name != "sequence-packing") continue;
    CHECK(f.best_plan->step_time.seconds() < 0.3 * now.step_time.seconds());
    CHECK(f.best_plan->step_time.seconds() > 0.2 * now.step_time.seconds());
    return;
  }
  FAIL("packing was not tried");
}

TEST_CASE("what fits nowhere is said") {
  const Advice a = advice_of(
      open_case("gpt-3-175b", "{gpu: a100-sxm4-40gb, gpus: 2, gpus_per_node: 2, intra: nvswitch, host: {dram_gb: 64}}",
                "{seq_len: 2048, global_batch: 16, precision: bf16}"));
  CHECK_FALSE(a.recommended);
  for (const Advice::Size& size : a.sizes) CHECK(size.free.empty());
}
