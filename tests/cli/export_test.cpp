#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/cli/program.h"

using namespace foretrain::testing;

TEST_CASE("export writes settings on standard output, and what they do not say on standard error") {
  const Outcome megatron = run_program("export scenarios/which-plan.yaml --case NVSwitch");
  CHECK(megatron.status == 0);
  CHECK(megatron.out.starts_with("torchrun --nproc_per_node 8 --nnodes 1 pretrain_gpt.py \\\n"));
  CHECK(contains(megatron.out, "--tensor-model-parallel-size 4 \\\n"));
  CHECK(contains(megatron.err, "note: not said here: the model's shape, data and learning rate"));
  const std::string deepspeed = "export --model llama-2-7b --gpu a100-80g:8 --global-batch 64 --zero 3 ";
  const Outcome auto_size = run_program(deepspeed + "--set plan.micro_batch=auto --quiet");
  CHECK(auto_size.status == 0);
  CHECK(auto_size.err.empty());
  const auto settings = nlohmann::json::parse(auto_size.out);
  CHECK(settings["zero_optimization"]["stage"] == 3);
  CHECK(settings["train_micro_batch_size_per_gpu"] > 1);
  CHECK(settings["gradient_accumulation_steps"].get<int>() * settings["train_micro_batch_size_per_gpu"].get<int>() ==
        8);
}

TEST_CASE("export refuses several cases, and frameworks that it does not know") {
  const Outcome several = run_program("export scenarios/which-plan.yaml");
  CHECK(several.status == 2);
  CHECK(several.out.empty());
  CHECK(contains(several.err, "there are 2 cases; choose one with --case: 'NVSwitch', 'PCIe'"));
  const Outcome unknown =
      run_program("export --model llama-2-7b --gpu a100-80g:8 --global-batch 64 --set software=torch-fsdp");
  CHECK(unknown.status == 2);
  CHECK(unknown.out.empty());
  CHECK(contains(unknown.err, "nothing is known of what torch-fsdp is launched with"));
}
