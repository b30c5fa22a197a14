#include "sim/analysis/diagnose.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "tests/support/cases.h"
#include "tests/support/plan_kinds.h"

using namespace foretrain;
using namespace foretrain::testing;

namespace {

const std::string kTwoNodes = kSmallLlama + a100_nodes(2, 8) +
                              "train: {seq_len: 2048, global_batch: 64, precision: bf16}\n"
                              "plan: {zero: 3, micro_batch: 1}";

CaseReport with_range(const Case& subject) {
  CaseReport report = simulate_plainly(subject);
  report.error_bar = ErrorBar{};
  report.error_bar->low_s = 0.85 * report.step_time.seconds();
  report.error_bar->high_s = 1.2 * report.step_time.seconds();
  return report;
}

Diagnosis diagnosis_of(const Case& subject, const std::string& line) {
  const RunLog log = read_run_log(line);
  REQUIRE_FALSE(log.empty());
  return diagnose(subject, with_range(subject), log, environment(), 2);
}

std::string progress(double step_s) { return fmt::format("5/3527 [04:17<63:50:18, {:.5f}s/it]", step_s); }

// The place of a cause in the list, from 0; -1 if it is not there.
int rank_of_cause(const Diagnosis& d, const std::string& name) {
  for (std::size_t i = 0; i < d.causes.size(); ++i) {
    if (d.causes[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

}  // namespace

TEST_CASE("a run as predicted is normal and needs no cause") {
  const Case subject = case_of(kTwoNodes);
  const double step = step_time(subject, environment()).seconds();
  for (const double factor : {0.9, 1.0, 1.15}) {
    const Diagnosis d = diagnosis_of(subject, progress(step * factor));
    CHECK(d.finding == Diagnosis::Finding::normal);
    CHECK(d.causes.empty());
  }
  CHECK(diagnosis_of(subject, progress(step * 1.25)).finding == Diagnosis::Finding::slow);
  CHECK(diagnosis_of(subject, progress(step * 0.8)).finding == Diagnosis::Finding::fast);
}

TEST_CASE("a cause is found again from the speed it gives") {
  const Case subject = case_of(kTwoNodes);
  const Time now = step_time(subject, environment());
  int checked = 0;
  for (const TriedChange& t : try_changes(known_causes(), {subject, environment()}, 2)) {
    const double step = t.outcome.step_time.seconds();
    if (step < 1.25 * now.seconds() && step > 0.8 * now.seconds()) continue;  // still normal
    CAPTURE(t.change.name);
    const Diagnosis d = diagnosis_of(subject, progress(step));
    REQUIRE_FALSE(d.causes.empty());
    CHECK(d.causes.front().distance < 1e-4);
    const int rank = rank_of_cause(d, t.change.name);
    REQUIRE(rank >= 0);
    CHECK(d.causes[static_cast<std::size_t>(rank)].distance < 1e-4);
    CHECK(d.causes[static_cast<std::size_t>(rank)].explains);
    ++checked;
  }
  CHECK(checked >= 5);
}

TEST_CASE("causes can be tried on every kind of plan, and keep the parts of a step together") {
  for (const PlanKind& kind : plan_kinds()) {
    CAPTURE(kind.name);
    const std::vector<TriedChange> tried = try_changes(known_causes(), {case_of_kind(kind), environment()}, 2);
    CHECK(tried.size() > 5);
    for (const TriedChange& t : tried) {
      CAPTURE(t.change.name);
      const Outcome& o = t.outcome;
      CHECK(o.forward + o.backward + o.rest == o.step_time);
      CHECK(o.forward > Time::zero());
      CHECK(o.backward > Time::zero());
      CHECK(o.rest >= Time::zero());
      CHECK(o.needed >= o.allocated);
    }
  }
}

TEST_CASE("causes stand in the order of their distance, all nearer than the description") {
  const Case subject = case_of(kTwoNodes);
  const Diagnosis d = diagnosis_of(subject, progress(step_time(subject, environment()).seconds() * 3));
  REQUIRE(d.causes.size() > 1);
  for (std::size_t i = 1; i < d.causes.size(); ++i) CHECK(d.causes[i - 1].distance <= d.causes[i].distance);
  for (const Diagnosis::Cause& c : d.causes) CHECK((c.explains || c.distance < d.distance));
}

TEST_CASE("a log that counts micro-batches is recognised") {
  const Case subject = case_of(kTwoNodes);  // 4 micro-batches a step
  const Diagnosis d = diagnosis_of(subject, progress(step_time(subject, environment()).seconds() / 4));
  CHECK(d.finding == Diagnosis::Finding::fast);
  CHECK(rank_of_cause(d, "counts-micro-batches") == 0);
}

TEST_CASE("the parts of a step tell an optimizer without cores from a slow link") {
  const Case subject =
      case_of(small_llama("deepspeed") + kA100Node + train(32) + "plan: {zero: 2, micro_batch: 2, offload: optimizer}");
  const auto tried = try_changes(known_causes(), {subject, environment()}, 2);
  for (const TriedChange& t : tried) {
    if (t.change.name != "starved-cores") continue;
    const Outcome& o = t.outcome;
    const Diagnosis d = diagnosis_of(
        subject, fmt::format("time (ms) | forward: {} | backward: {} | step: {}", o.forward.seconds() * 1e3,
                             o.backward.seconds() * 1e3, o.rest.seconds() * 1e3));
    CHECK(d.finding == Diagnosis::Finding::slow);
    CHECK(rank_of_cause(d, "starved-cores") == 0);
    return;
  }
  FAIL("starved-cores does not apply");
}

TEST_CASE("rates of other kinds say the same as the step time") {
  const Case subject = case_of(kTwoNodes);
  const CaseReport report = with_range(subject);
  const double step = report.step_time.seconds() * 2;
  for (const std::string& line :
       {fmt::format("tps: {:.3f}", report.tokens_per_second_per_gpu / 2), fmt::format("mfu: {:.6f}%", report.mfu * 50),
        fmt::format("'train_samples_per_second': {:.6f},", report.samples_per_second / 2),
        fmt::format("elapsed time per iteration (ms): {:.4f} |", step * 1e3)}) {
    CAPTURE(line);
    const Diagnosis d = diagnosis_of(subject, line);
    REQUIRE(d.step_s);
    CHECK(*d.step_s == doctest::Approx(step).epsilon(1e-3));
    CHECK(d.finding == Diagnosis::Finding::slow);
  }
}

TEST_CASE("out of memory: as simulated, or with what would explain it") {
  const std::string machine = "cluster: {gpu: a100-sxm4-80gb, gpus: 1, gpus_per_node: 1, intra: nvswitch}\n";
  const Case large =
      case_of("model: llama-2-13b\nsoftware: hf-trainer\n" + machine + train(8) + "plan: {micro_batch: 1}");
  const char* sentence =
      "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.00 GiB is "
      "free. "
      "Including non-PyTorch memory, this process has 78.15 GiB memory in use. Of the allocated memory 76.00 GiB is "
      "allocated by PyTorch, and 0.50 GiB is reserved by PyTorch but unallocated.";
  CHECK(diagnosis_of(large, sentence).finding == Diagnosis::Finding::fits_not);

  const Case sharded = case_of("model: llama-2-7b\nsoftware: deepspeed\n" + kA100Node + train(8) +
                               "plan: {zero: 3, recompute: full, micro_batch: 1}");
  REQUIRE(simulate_plainly(sharded).fits);
  const Diagnosis d = diagnosis_of(sharded, sentence);
  CHECK(d.finding == Diagnosis::Finding::should_fit);
  CHECK(rank_of_cause(d, "no-sharding") >= 0);
  for (const Diagnosis::Cause& c : d.causes) CHECK(c.needed > d.report.capacity);
  CHECK(d.memory_notes.empty());
}

TEST_CASE("the sentence itself gives fragmentation and other processes away") {
  const Case subject = case_of(kSmallLlama + kA100Node + train(16) + "plan: {zero: 3, micro_batch: 1}");
  const Diagnosis d = diagnosis_of(
      subject,
      "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.05 GiB is "
      "free. "
      "Including non-PyTorch memory, this process has 60.00 GiB memory in use. Of the allocated memory 40.00 GiB is "
      "allocated by PyTorch, and 19.00 GiB is reserved by PyTorch but unallocated.");
  REQUIRE(d.memory_notes.size() == 2);
  CHECK(d.memory_notes[0].english().find("fragmentation: 19.00 GiB") == 0);
  CHECK(d.memory_notes[1].english() == "another process holds 18.1 GiB of this GPU");
}
