#include "sim/scenario/software_default.h"

#include <doctest/doctest.h>

#include "tests/scenario/support.h"
#include "tests/support/files.h"

namespace foretrain {
namespace {

using testing::contains;
using testing::kData;
using Names = std::vector<std::string>;

Scenario scenario_of(const std::string& cases, OpenPlans open_plans = OpenPlans::refused) {
  Diagnostics said;
  const auto node = config::parse_yaml(
      "base: {model: llama-3.2-1b, cluster: {gpu: a100-sxm4-80gb, gpus: 8}}\ncases: " + cases, "s.yaml", said);
  REQUIRE(node);
  auto scenario = read_scenario(*node, kData, said, open_plans);
  INFO(testing::shown(said));
  REQUIRE(scenario);
  return *scenario;
}

// The software of each of these cases.
Names taken(const std::string& cases, OpenPlans open_plans = OpenPlans::refused) {
  Names names;
  for (const Case& c : scenario_of(cases, open_plans).cases) names.push_back(c.software.name);
  return names;
}

std::optional<SoftwareDefaults> defaults_of(const std::string& yaml, Diagnostics& diagnostics) {
  const testing::Folder folder;
  std::filesystem::create_directory(folder / "configs");
  testing::write_file(folder / "configs/software-defaults.yaml", yaml);
  return SoftwareDefaults::load({folder.path().string()}, diagnostics);
}

}  // namespace

TEST_CASE("software that is not named follows from what is asked") {
  CHECK(taken("[{}]") == Names{"megatron-core"});
  CHECK(taken("[{plan: {tp: 2}}]") == Names{"megatron-core"});
  CHECK(taken("[{plan: {tp: 1, pp: 1, zero: 2}}]") == Names{"hf-deepspeed"});
  CHECK(taken("[{plan: {zero: 1, tp: 2}}]") == Names{"megatron-core"});
  CHECK(taken("[{plan: {zero: 0}}]") == Names{"megatron-core"});
  CHECK(taken("[{plan: {zero: 3, shard_group: 4}}]") == Names{"torch-fsdp"});
  CHECK(taken("[{plan: {zero: 2, offload: none}}]") == Names{"hf-deepspeed"});
  CHECK(taken("[{plan: {offload: optimizer}, cluster: {gpus: 1}}]") == Names{"hf-deepspeed"});
  CHECK(taken("[{train: {peft: lora}}]") == Names{"hf-trainer"});
  CHECK(taken("[{train: {peft: {kind: qlora, rank: 8}}}]") == Names{"hf-trainer"});
  CHECK(taken("[{train: {peft: none}}]") == Names{"megatron-core"});
  CHECK(taken("[{train: {peft: lora}, plan: {zero: 3}}]") == Names{"hf-deepspeed"});
  CHECK(taken("[{train: {peft: lora}, plan: {tp: 2}}]") == Names{"megatron-core"});
  CHECK(taken("[{train: {optimizer: adamw8bit}}]") == Names{"hf-trainer"});
}

TEST_CASE("cases that are compared take the same software, and those that name one keep it") {
  CHECK(taken("[{plan: {zero: 0}}, {plan: {zero: 3}}]") == Names{"hf-deepspeed", "hf-deepspeed"});
  CHECK(taken("[{plan: {tp: 1, zero: 1}}, {plan: {tp: 4, zero: 1}}]") == Names{"megatron-core", "megatron-core"});
  CHECK(taken("[{}, {software: nemo, plan: {tp: 4}}, {train: {peft: lora}}]") ==
        Names{"hf-trainer", "nemo", "hf-trainer"});
}

TEST_CASE("searches take it by what is fixed of the plan") {
  CHECK(taken("[{plan: auto}]", OpenPlans::all) == Names{"megatron-core"});
  CHECK(taken("[{plan: {zero: 3}}]", OpenPlans::all) == Names{"hf-deepspeed"});
  CHECK(taken("[{plan: auto, train: {peft: qlora}}]", OpenPlans::all) == Names{"hf-trainer"});
}

TEST_CASE("what software was taken is said, and why") {
  const auto assumed = [](const std::string& cases) {
    std::string all;
    const Scenario scenario = scenario_of(cases);
    for (const Message& line : scenario.cases.front().assumptions) all += line.english() + "\n";
    return all;
  };
  CHECK(contains(assumed("[{train: {peft: lora}}]"), "software is taken as hf-trainer, for adapters\n"));
  CHECK(contains(assumed("[{}]"), "software is taken as megatron-core\n"));
  CHECK_FALSE(contains(assumed("[{software: nemo}]"), "software is taken"));
}

TEST_CASE("faulty rules are refused") {
  const std::pair<const char*, const char*> faults[] = {
      {"rules: []", "rules must be a list of 1 to"},
      {"{}", "rules must be a list of 1 to"},
      {"rules: [{asks: [adaptors], software: nemo}, {asks: [], software: nemo}]", "did you mean 'adapters'"},
      {"rules: [{asks: [zero], software: nemo}]", "the last rule must ask for nothing"},
      {"rules: [{asks: []}]", "software is missing"},
      {"rules: [nemo]", "must be a map"},
      {"rules: [{asks: [], software: nemo, also: 1}]", "also"}};
  for (const auto& [yaml, fault] : faults) {
    CAPTURE(yaml);
    Diagnostics said;
    CHECK_FALSE(defaults_of(yaml, said));
    CHECK_MESSAGE(contains(testing::shown(said), fault), testing::shown(said));
  }
}

}  // namespace foretrain
