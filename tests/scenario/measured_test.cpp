#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "sim/scenario/run_notes.h"
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

Loaded load(const std::string& path, const RunNotes& notes = {}) {
  Loaded l;
  l.file = load_measured(path, kData, notes, l.said);
  return l;
}

// Loads a file with one case: good but for what `changes` (more keys of the case) says.
Loaded load_case(const std::string& changes, const RunNotes& notes = {}) {
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
  Loaded loaded = load(path.string(), notes);
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

struct Notes {
  std::optional<RunNotes> notes;
  std::string said;
};

Notes notes_of(const std::string& text) {
  const testing::TemporaryFile file(text);
  Diagnostics said;
  auto notes = load_run_notes(file.path(), said);
  return {std::move(notes), testing::shown(said)};
}

TEST_CASE("a correction changes the runs it names, and only the fields it names") {
  const Notes read = notes_of(R"(
corrections:
  - {runs: ["on*"], set: {plan.micro_batch: 2, train.peft: lora}, why: its script says so, source: the script}
  - {runs: [two, "*three"], set: {plan.micro_batch: 4}, why: w, source: s}
)");
  INFO(read.said);
  REQUIRE(read.notes);
  const Loaded l = load_case("measured: {step_time_s: 1}", *read.notes);
  INFO(l.text());
  REQUIRE(l.file);
  REQUIRE(l.file->cases[0].subject);
  CHECK(l.file->cases[0].subject->plan.micro_batch == 2);
  CHECK(l.file->cases[0].subject->plan.zero == 3);
  CHECK(l.file->cases[0].subject->train.peft.active());
  const Correction& second = read.notes->corrections[1];
  CHECK(second.concerns("two"));
  CHECK(second.concerns("no-three"));
  CHECK_FALSE(second.concerns("two-three-four"));
  // A wrong value is reported at the correction.
  const Notes bad = notes_of("corrections:\n  - {runs: [one], set: {plan.tp: 3}, why: w, source: s}\n");
  REQUIRE(bad.notes);
  const Loaded refused = load_case("measured: {step_time_s: 1}", *bad.notes);
  REQUIRE(refused.file);
  CHECK(refused.file->cases[0].faulty);
  CHECK(contains(refused.file->cases[0].refusals[0], ":2:"));
}

TEST_CASE("notes on runs that say nothing of a run are errors, with their place") {
  for (const auto& [text, expected] : {
           std::pair{"flags: [a]", "1:8: error: flags"},
           {"flags: {a: [b]}", "flags.a"},
           {"corrections: {a: b}", "1:14: error: corrections must be a list"},
           {"corrections:\n- {set: {plan.zero: 1}, why: w, source: s}", "runs must list names"},
           {"corrections:\n- {runs: [a], set: {}, why: w, source: s}", "set must be a map"},
           {"corrections:\n- {runs: [a], set: {plan.zeros: 1}, why: w, source: s}",
            "2:21: error: there is no field 'plan.zeros' that a correction may set; did you mean 'plan.zero'"},
           {"corrections:\n- {runs: [a], set: {measured.step_time_s: 1}, why: w, source: s}", "there is no field"},
           {"corrections:\n- {runs: [a], set: {plan.zero: 1}, source: s}", "why is missing"},
           {"corrections:\n- {runs: [a], set: {plan.zero: 1}, why: w}", "source is missing"},
           {"flag: {}", "unknown key 'flag'"},
       }) {
    const Notes read = notes_of(text);
    CAPTURE(text);
    CAPTURE(read.said);
    CHECK_FALSE(read.notes);
    CHECK(contains(read.said, expected));
  }
}

TEST_CASE("what a run guesses gives way to what the catalogues know") {
  const auto network = [](const std::string& cluster, const std::string& guessed) {
    const Loaded l = load_case("measured: {step_time_s: 1}, plan: {zero: 1}, cluster: " + cluster + guessed);
    INFO(l.text());
    REQUIRE(l.file);
    REQUIRE(l.file->cases[0].subject);
    return l.file->cases[0].subject->cluster.network;
  };
  const std::string bloom = "{gpus: 32, nics: 4, nic_gbps: 100, net: infiniband, host: {dram_gb: 512}}";
  CHECK(network(bloom, "") == NetworkKind::infiniband);
  CHECK(network(bloom, ", guessed: [cluster.intra]") == NetworkKind::infiniband);
  CHECK(network(bloom, ", guessed: [cluster.net]") == NetworkKind::omni_path);
  // No machine of the catalogue has these NICs, or this host; or several have them, on different networks.
  CHECK(network("{gpus: 32, nics: 4, nic_gbps: 100, net: infiniband, host: {dram_gb: 500}}",
                ", guessed: [cluster.net]") == NetworkKind::infiniband);
  CHECK(network("{gpus: 32, nics: 4, nic_gbps: 100, net: infiniband}", ", guessed: [cluster.net]") ==
        NetworkKind::infiniband);
  CHECK(network("{gpus: 32, nics: 3, nic_gbps: 100, net: infiniband}", ", guessed: [cluster.net]") ==
        NetworkKind::infiniband);

  const auto targets = [](const std::string& peft, const std::string& rest) {
    const Loaded l = load_case("measured: {step_time_s: 1}, plan: {zero: 0}, train: {peft: " + peft + "}" + rest);
    INFO(l.text());
    REQUIRE(l.file);
    REQUIRE(l.file->cases[0].subject);
    const Peft::Targets& t = l.file->cases[0].subject->train.peft.targets;
    CHECK(t.q);
    return t.o && t.up && t.down ? "all" : t.o ? "attention" : t.k ? "qkv" : "qv";
  };
  const std::string guessed = ", guessed: [train.peft]";
  CHECK(targets("lora", ", software: nemo") == std::string("qkv"));
  CHECK(targets("lora", "") == std::string("all"));
  CHECK(targets("{kind: lora, targets: qv}", ", software: nemo") == std::string("qv"));
  CHECK(targets("{kind: lora, targets: all-linear}", ", software: nemo") == std::string("all"));
  CHECK(targets("{kind: lora, targets: all-linear}", ", software: nemo" + guessed) == std::string("qkv"));
  CHECK(targets("{kind: lora, targets: attention}", guessed) == std::string("attention"));
}

}  // namespace
}  // namespace foretrain
