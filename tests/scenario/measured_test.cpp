#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "sim/scenario/scenario.h"
#include "tests/scenario/support.h"
#include "tests/support/text.h"

namespace foretrain {
namespace {

using testing::contains;
using testing::kData;

struct Loaded {
  std::optional<MeasuredFile> file;
  Diagnostics said;

  std::string text() const { return testing::shown(said); }
};

Loaded load(const std::string& path) {
  Loaded l;
  l.file = load_measured(path, kData, l.said);
  return l;
}

// Loads a file with one case: good but for what `changes` (more keys of the case) says.
Loaded load_case(const std::string& changes) {
  const std::filesystem::path path = std::filesystem::temp_directory_path() / "foretrain_measured_test.yaml";
  std::ofstream(path) << R"(
title: t
source: {title: someone, url: "https://example.org", date: "2024"}
base:
  model: llama-2-7b
  train: {seq_len: 4096, global_batch: 64, precision: bf16, optimizer: adamw, attention: flash2, peft: none}
  plan: {tp: 1, pp: 1, zero: 3, micro_batch: 1}
  cluster: {gpu: a100-sxm4-80gb, gpus: 8, gpus_per_node: 8, intra: nvswitch}
  software: torch-fsdp
cases:
)"
                      << "- {name: one, " << changes << "}\n";
  Loaded loaded = load(path.string());
  std::filesystem::remove(path);
  return loaded;
}

TEST_CASE("published runs load with what was measured") {
  const Loaded l = load(testing::kFolder + "sc21-megatron.yaml");
  INFO(l.text());
  REQUIRE(l.file);
  CHECK(contains(l.file->source_title, "Megatron-LM"));
  CHECK(l.file->source_url == "https://arxiv.org/abs/2104.04473");
  REQUIRE(l.file->cases.size() == 4);
  const MeasuredCase& oom = l.file->cases[0];
  CHECK(oom.measured.out_of_memory);
  CHECK_FALSE(oom.measured.step_time_s);
  REQUIRE(oom.subject);
  CHECK(oom.subject->plan.shard_ranks() == 560);
  const MeasuredCase& run = l.file->cases[1];
  CHECK(run.name == "sc21-t1-1.7b");
  CHECK(run.measured.step_time_s == doctest::Approx(3.528));
  CHECK(run.trust == "high");
  CHECK(run.refusals.empty());
  REQUIRE(run.subject);
  CHECK(run.subject->plan.dp == 32);
  CHECK(run.subject->train.precision == Precision::fp16);
}

TEST_CASE("a run that needs a feature that is not built is kept aside") {
  const Loaded l = load(testing::kFolder + "zero-bubble.yaml");
  INFO(l.text());
  REQUIRE(l.file);
  REQUIRE(l.file->cases.size() == 2);
  const MeasuredCase &simulated = l.file->cases[0], &refused = l.file->cases[1];
  REQUIRE(simulated.subject);
  CHECK(simulated.measured.memory_per_gpu->value == 30e9);
  CHECK(simulated.measured.memory_kind == Measured::MemoryKind::allocated);
  CHECK_FALSE(refused.subject);
  CHECK(refused.refusals == std::vector<std::string>{"plan.offload.activations=nvme (legal: cpu)"});
  CHECK_FALSE(refused.faulty);
  CHECK(refused.measured.step_time_s == doctest::Approx(1.791));
}

TEST_CASE("all features that are missing are named") {
  const Loaded l =
      load_case("measured: {step_time_s: 1}, train: {precision: mxfp8}, plan: {cp: 2, offload: {activations: nvme}}");
  INFO(l.text());
  REQUIRE(l.file);
  CHECK(l.file->cases[0].refusals ==
        std::vector<std::string>{"train.precision=mxfp8", "plan.offload.activations=nvme (legal: cpu)"});
  CHECK_FALSE(l.file->cases[0].faulty);
}

TEST_CASE("a faulty run is kept aside, and told from an unbuilt feature") {
  const Loaded l = load_case("measured: {step_time_s: 1}, plan: {tp: 3}");
  REQUIRE(l.file);
  CHECK_FALSE(l.file->cases[0].subject);
  CHECK(l.file->cases[0].faulty);
  REQUIRE(l.file->cases[0].refusals.size() == 5);  // nothing of the model divides by 3, nor do the GPUs
  CHECK(contains(l.file->cases[0].refusals[0], "error: tp=3 does not divide"));
}

TEST_CASE("kinds of measurements") {
  const Loaded l =
      load_case("measured: {memory_gb_per_gpu: 74.5GiB, memory_kind: device}, trust: low, guessed: [plan], needs: [x]");
  INFO(l.text());
  REQUIRE(l.file);
  CHECK(l.file->cases[0].measured.memory_per_gpu->value == doctest::Approx(74.5 * kGiB));
  CHECK(l.file->cases[0].measured.memory_kind == Measured::MemoryKind::device);
  CHECK(l.file->cases[0].trust == "low");
  CHECK(load_case("measured: {step_time_s: 1500ms}").file->cases[0].measured.step_time_s == doctest::Approx(1.5));
}

TEST_CASE("a file that says wrongly what was measured is an error") {
  CHECK(contains(load_case("trust: high").text(), "measured is missing"));
  CHECK(contains(load_case("measured: {}").text(), "measured needs step_time_s, memory_gb_per_gpu or oom"));
  CHECK(contains(load_case("measured: {step_time_s: 0}").text(), "out of range"));
  CHECK(contains(load_case("measured: {step_time: 3}").text(), "unknown key 'step_time' in measured"));
  CHECK(contains(load_case("measured: {oom: true}, trust: total").text(), "is not one of high, medium, low"));
  CHECK_FALSE(load_case("measured: {}").file);
  CHECK_FALSE(load(testing::kFolder + "no-such-file.yaml").file);
}

}  // namespace
}  // namespace foretrain
