#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/cli/program.h"
#include "tests/support/effort.h"

using namespace foretrain::testing;
using nlohmann::json;

namespace {

// The answer without the sentences about what was assumed.
json figures(const std::string& arguments) {
  const Outcome o = run_program(arguments + " --quiet --json -");
  CAPTURE(arguments);
  CAPTURE(o.err);
  REQUIRE(o.status == 0);
  json answer = json::parse(o.out);
  for (json& one : answer["cases"]) {
    one.erase("assumptions");
    one.erase("warnings");
  }
  return answer;
}

std::vector<std::string> names(const json& answer) {
  std::vector<std::string> all;
  for (const json& one : answer["cases"]) all.push_back(one["name"]);
  return all;
}

std::string refusal(const std::string& arguments) {
  const Outcome o = run_program(arguments);
  CAPTURE(arguments);
  CHECK(o.status == 2);
  CHECK(o.out == "");
  return o.err;
}

const std::string kMachine = " --model llama-2-7b --gpu a100-40g --gpus 8 ";

}  // namespace

TEST_CASE("flags alone answer as a file that says the same") {
  const Folder folder;
  write_file(folder / "q.yaml", R"(
cases:
  - name: 8 x a100-40g
    model: llama-2-7b
    cluster: {gpu: a100-sxm4-40gb, gpus: 8}
    train: {seq_len: 4096}
    plan: {zero: 2, micro_batch: 1, recompute: full}
)");
  const json flags = figures("run" + kMachine + "--zero 2 --seq-len 4096 --micro-batch 1 --recompute full");
  CHECK(flags == figures("run " + (folder / "q.yaml")));
  CHECK(flags == figures("run" + kMachine + "--zero 2 --seq 4096 --micro-batch 1 --recompute full"));
  CHECK(flags["cases"][0]["fits"] == true);
}

TEST_CASE("what is not said is assumed, and every assumption printed") {
  const Outcome o = run_program("run" + kMachine);
  CHECK(o.status == 0);
  for (const char* assumed : {"software is taken as", "intra is taken as nvswitch", "train.precision is taken as bf16",
                              "train.global_batch is taken as 8", "train.seq_len is taken as"}) {
    CHECK_MESSAGE(contains(o.out, assumed), assumed);
  }
}

TEST_CASE("names of the field are taken as people write them") {
  const json expected = figures("run --model llama-2-7b --gpu a100-sxm4-80gb --gpus 8 --zero 1");
  for (const char* model : {"llama2-7b", "meta-llama/Llama-2-7b-hf", "7B", "Llama_2_7B"}) {
    for (const char* gpu : {"A100-80G:8", "a100-80gb:8", "'NVIDIA A100-SXM4-80GB:8'"}) {
      json answer = figures(std::string("run --model ") + model + " --gpu " + gpu + " --zero 1");
      CHECK(answer["cases"][0]["fingerprint"] == expected["cases"][0]["fingerprint"]);
    }
  }
  CHECK(contains(run_program("run --model 7B --gpu h100:1 --zero 1").out, "'7B' is taken as llama-2-7b"));
  for (const char* gpu : {"4090", "rtx4090", "RTX 4090", "h100", "3090", "a800", "v100-32g", "t4", "l40s"}) {
    CHECK_MESSAGE(run_program(std::string("run --model Qwen/Qwen2.5-7B --gpu '") + gpu + ":1' --quiet").status == 0,
                  gpu);
  }
}

TEST_CASE("flags win over every case of a file") {
  const json answer = figures("run scenarios/zero-stages.yaml --zero 3 --micro-batch 2 --set train.seq_len=1k");
  CHECK(answer["cases"].size() == 6);
  for (const json& one : answer["cases"]) {
    CHECK(one["plan"]["zero"] == 3);
    CHECK(one["plan"]["micro_batch"] == 2);
    CHECK(one["fingerprint"] == answer["cases"][0]["fingerprint"]);
  }
  CHECK(names(answer) == names(figures("run scenarios/zero-stages.yaml")));
}

TEST_CASE("variations make a case of every combination, with readable names") {
  CHECK(names(figures("run --model llama-2-7b --vary gpu=a100-40g:8,a100-80g:4 --vary zero=2,3")) ==
        std::vector<std::string>{"8 x a100-40g, zero 2", "8 x a100-40g, zero 3", "4 x a100-80g, zero 2",
                                 "4 x a100-80g, zero 3"});
  CHECK(names(figures("run scenarios/zero-stages.yaml --case 'ZeRO-2, recompute none' --vary recompute=none,full")) ==
        std::vector<std::string>{"ZeRO-2, recompute none"});
}

TEST_CASE("a variation of a file's cases takes every case in every variant") {
  const Folder folder;
  write_file(folder / "q.yaml", R"(
base: {model: llama-3.2-1b, cluster: {gpu: a100-sxm4-80gb, gpus: 2}, plan: {zero: 1}}
cases: [{name: short, train: {seq_len: 1024}}, {name: long, train: {seq_len: 4096}}]
)");
  const json answer =
      figures("run " + (folder / "q.yaml") + " --vary recompute=none,'{blocks: 4}' --vary plan.zero=0,3");
  CHECK(names(answer) == std::vector<std::string>{
                             "short, recompute none, plan.zero 0", "short, recompute none, plan.zero 3",
                             "short, recompute {blocks: 4}, plan.zero 0", "short, recompute {blocks: 4}, plan.zero 3",
                             "long, recompute none, plan.zero 0", "long, recompute none, plan.zero 3",
                             "long, recompute {blocks: 4}, plan.zero 0", "long, recompute {blocks: 4}, plan.zero 3"});
  const json one = figures("run " + (folder / "q.yaml") + " --case long --zero 3 --recompute '{blocks: 4}'");
  CHECK(answer["cases"][7]["fingerprint"] == one["cases"][0]["fingerprint"]);
}

TEST_CASE("values take units on the command line too") {
  const json bare =
      figures("run --model llama-2-7b --gpu a100-40g --gpus 16 --nics 8 --nic-gbps 200 --zero 3 --tokens 2e9");
  const json with_units =
      figures("run --model llama-2-7b --gpu a100-40g --gpus 16 --nics 8 --nic-gbps 25GB/s --zero 3 --tokens 2B");
  CHECK(bare == with_units);
  const json priced =
      figures("run" + kMachine + "--tokens 1e9 --price 2800CNY/month --set cluster.host.dram_gb=476.8GiB");
  CHECK(priced["cases"][0]["cost"]["currency"] == "CNY");
}

TEST_CASE("errors name the flag and say what would be right") {
  const std::string said = refusal("run --model lama-2-7b --gpu a100-41g:8 --zero 7 --micro-batch x --set plan.tpp=3");
  CHECK(contains(said, "--model: error: unknown model 'lama-2-7b'; did you mean 'llama-2-7b'"));
  CHECK(contains(said, "--gpu: error: unknown GPU 'a100-41g'; did you mean"));
  CHECK(contains(said, "--zero: error: plan.zero=7 is out of range; must be between 0 and 3"));
  CHECK(contains(said, "--micro-batch: error: plan.micro_batch: 'x' is not a whole number"));
  CHECK(contains(said, "--set plan.tpp: error: unknown key 'tpp' in plan; did you mean"));

  CHECK(contains(refusal("run"), "error: nothing to answer; give a scenario file, or --model and --gpu"));
  CHECK(contains(refusal("run --gpu h100:8"), "command line: error: --model is missing; for instance"));
  CHECK(contains(refusal("run --model 7b --zero 1"), "command line: error: --gpu or --node is missing"));
  CHECK(contains(refusal("run --model 7b --gpu h100"), "--gpu: error: cluster.gpus is missing"));
  CHECK(contains(refusal("run" + kMachine + "--peft '{kind: lora'"), "--peft:1:"));
  CHECK(contains(refusal("run" + kMachine + "--peft '{kind: lor}'"),
                 "--peft: error: train.peft.kind: 'lor' is not one of"));
  CHECK(contains(refusal("run" + kMachine + "--set zero"), "'zero' is not of the form"));
  CHECK(contains(refusal("run" + kMachine + "--set plan..zero=1"), "'plan..zero' is no path of a scenario"));
  CHECK(contains(refusal("run" + kMachine + "--set a.b.c.d.e.f.g.h=1"), "is no path of a scenario"));
}

TEST_CASE("flags do not hide what is wrong with the file they are laid over") {
  const Folder folder;
  write_file(folder / "q.yaml", "cases: 3\n");
  CHECK(contains(refusal("run " + (folder / "q.yaml") + kMachine), "q.yaml:1:8: error: cases must be a list"));
  write_file(folder / "q.yaml", "base: [1]\n");
  CHECK(contains(refusal("run " + (folder / "q.yaml") + kMachine), "q.yaml:1:7: error: base must be a map"));
  write_file(folder / "q.yaml", "cases: [{name: a}, 3]\n");
  CHECK(contains(refusal("run " + (folder / "q.yaml") + kMachine + "--vary zero=1,2"), "case 2 must be a map"));
}

TEST_CASE("wrong variations are refused, and none makes cases without bound") {
  CHECK(contains(refusal("run" + kMachine + "--vary zero"), "'zero' is not of the form zero=1,2,3"));
  CHECK(contains(refusal("run" + kMachine + "--vary zeros=1,2"), "there is no field 'zeros'; did you mean 'zero'"));
  CHECK(contains(refusal("run" + kMachine + "--vary zero=1,,2"), "'zero=1,,2' has an empty value"));
  CHECK(contains(refusal("run" + kMachine + "--vary zero=1,1"), "'zero=1,1' has twice the same value"));
  CHECK(contains(refusal("run" + kMachine + "--vary zero=1,9"), "--vary zero: error: plan.zero=9 is out of range"));
  std::string many = "tp=1";
  for (int i = 2; i < 40; ++i) many += "," + std::to_string(i);
  CHECK(contains(refusal("run" + kMachine + "--vary " + many + " --vary p" + many.substr(1)),
                 "--vary: error: that makes more than 1000 cases"));
}

TEST_CASE("a shown scenario gives the same answer") {
  const Folder folder;
  std::vector<std::string> questions = {
      kMachine + "--zero 2 --recompute full",
      " --model qwen2.5-7b --gpu 4090:2 --peft '{kind: qlora, rank: 64}' --software hf-trainer",
      " --model mixtral --node dgx-h100:2 --fabric ndr-rails --ep 8 --pp 2 --zero 1 --global-batch 64",
      " --model 13b --gpu 3090 --gpus 4 --intra pcie-switch --offload optimizer+params --zero 3 --software deepspeed",
      " --model 13b --gpu a100-80g:8 --tp 2 --pp 2 --vpp 2 --global-batch 32 --vary micro-batch=1,2,auto --plan '{tp: "
      "4}'"};
  for (const auto& entry : std::filesystem::directory_iterator(FORETRAIN_SOURCE_DIR "/scenarios")) {
    if (!kSanitized && entry.path().extension() == ".yaml") questions.push_back(" " + entry.path().string());
  }
  REQUIRE(questions.size() > (kSanitized ? 4 : 10));
  for (const std::string& question : questions) {
    CAPTURE(question);
    const Outcome shown = run_program("run" + question + " --show-scenario");
    CHECK(shown.status == 0);
    write_file(folder / "shown.yaml", shown.out);
    CHECK(figures("run " + (folder / "shown.yaml")) == figures("run" + question));
    CHECK(contains(run_program("run " + (folder / "shown.yaml") + " --show-scenario").out, "base:"));
  }
}

TEST_CASE("models of files beside the scenario are shown in place") {
  const Folder folder;
  write_file(folder / "mine.yaml", "arch: llama\nlayers: 4\nhidden: 1024\nheads: 8\nffn: 4096\nvocab: 32000\n");
  write_file(folder / "q.yaml", "base: {model: mine.yaml, cluster: {gpu: a100-80g, gpus: 1}}\n");
  const Outcome shown = run_program("run " + (folder / "q.yaml") + " --show-scenario");
  CHECK(contains(shown.out, "hidden: 1024"));
  const Folder elsewhere;
  write_file(elsewhere / "shown.yaml", shown.out);
  CHECK(figures("run " + (elsewhere / "shown.yaml")) == figures("run " + (folder / "q.yaml")));
}

TEST_CASE("plan and scale take flags instead of a file") {
  const Outcome plan = run_program("plan --model llama-3.2-1b --gpu a100-80g:2 --global-batch 16 --zero 1 --json -");
  CHECK(plan.status == 0);
  const json found = json::parse(plan.out);
  for (const json& one : found.at("cases")) CHECK(one.at("plans").size() > 0);
  CHECK(contains(run_program("plan" + kMachine).err, "train.global_batch is taken as 64"));
  const Outcome scale =
      run_program("scale --model llama-3.2-1b --gpu a100-80g --global-batch 16 --zero 1 --gpus 1,2,4 --json -");
  CHECK(scale.status == 0);
  const json points = json::parse(scale.out)["cases"][0]["points"];
  REQUIRE(points.size() == 3);
  for (const json& point : points) CHECK(point["why_not"].is_null());
  CHECK(contains(run_program("scale --model 7b --gpu a100-80g --global-batch 16 --gpus 2,4 --show-scenario").out,
                 "gpus: 2"));
}

TEST_CASE("explain, diagnose and advise take flags instead of a file, over one, and show what they understood") {
  const std::string small = "--model llama-2-7b --gpu a100-80g --gpus 2 --seq-len 1024 --global-batch 8 ";
  const std::string plan = "--zero 2 --micro-batch 1 --recompute full ";
  const std::vector<std::pair<std::string, std::string>> commands = {
      {"explain", small + plan}, {"diagnose --line '10/20 [00:20<00:20, 2.00s/it]'", small + plan}, {"advise", small}};
  for (const auto& [command, flags] : commands) {
    CAPTURE(command);
    const Outcome shown = run_program(command + " " + flags + "--quiet --show-scenario");
    REQUIRE(shown.status == 0);
    const Folder folder;
    write_file(folder / "shown.yaml", shown.out);
    const Outcome by_flags = run_program(command + " " + flags + "--quiet --json -");
    CHECK(by_flags.status == 0);
    CHECK(by_flags.out == run_program(command + " " + (folder / "shown.yaml") + " --quiet --json -").out);
    const std::string other = " --seq-len 512 --quiet --json -";
    const Outcome over = run_program(command + " " + (folder / "shown.yaml") + other);
    CHECK(over.status == 0);
    CHECK(over.out != by_flags.out);
    CHECK(contains(refusal(command), "nothing to answer"));
    CHECK(contains(refusal(command + " " + small + "--zero 7"), "--zero"));
  }
}

TEST_CASE("init writes a commented scenario that can be answered, and never replaces a file") {
  const Folder folder;
  const std::string file = folder / "new.yaml";
  Outcome o = run_program("init " + file);
  CHECK(o.status == 0);
  CHECK(o.out == "");
  const std::string text = read_file(file);
  CHECK(contains(text, "seq_len: 2048  # tokens of a sequence"));
  CHECK(run_program("run " + file).status == 0);
  CHECK(run_program("init").out == text);
  CHECK(contains(refusal("init " + file), "exists already; name a new file"));
  CHECK(read_file(file) == text);

  const std::string question = " --model qwen-2.5-7b --vary gpu=a100-40g:8,a100-80g:4 --zero 2 --global-batch 64";
  CHECK(run_program("init " + (folder / "two.yaml") + question).status == 0);
  json expected = figures("run" + question), answer = figures("run " + (folder / "two.yaml"));
  CHECK(expected["cases"] == answer["cases"]);
  CHECK(contains(refusal("init --model lama"), "--model: error: unknown model"));
}

TEST_CASE("the schema is printed") {
  CHECK(run_program("schema").out == read_file(FORETRAIN_SOURCE_DIR "/docs/scenario.schema.json"));
  CHECK(run_program("schema --markdown").out == read_file(FORETRAIN_SOURCE_DIR "/docs/scenario.md"));
}

TEST_CASE("other tools' files become scenarios that can be answered") {
  const Folder folder;
  write_file(folder / "ds.json",
             R"({"train_batch_size": 32, "train_micro_batch_size_per_gpu": 2, "bf16": {"enabled": true},
    "steps_per_print": 10, "zero_optimization": {"stage": 2}})");
  const Outcome o = run_program("import " + (folder / "ds.json") + kMachine + "--recompute full");
  CHECK(o.status == 0);
  CHECK(contains(o.out, "# taken    zero_optimization.stage -> plan.zero: 2\n"));
  CHECK(contains(o.out, "# ignored  steps_per_print: says nothing about the step\n"));
  write_file(folder / "q.yaml", o.out);
  json imported = figures("run " + (folder / "q.yaml"));
  json flags =
      figures("run" + kMachine + "--zero 2 --micro-batch 2 --global-batch 32 --software deepspeed --recompute full");
  CHECK(imported["cases"][0]["fingerprint"] == flags["cases"][0]["fingerprint"]);

  const Outcome open = run_program("import " + (folder / "ds.json"));
  CHECK(open.status == 0);
  CHECK(contains(open.out, "# still to say: model, cluster.gpu, cluster.gpus\n"));
  const Outcome command = run_program(
      "import --gpu h100 --set model.vocab=32000 -- torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 24 "
      "--hidden-size 2048 --num-attention-heads 16 --micro-batch-size 2 --global-batch-size 64 --seq-length 2048 "
      "--bf16");
  CAPTURE(command.err);
  CHECK(command.status == 0);
  write_file(folder / "m.yaml", command.out);
  CHECK(run_program("run " + (folder / "m.yaml")).status == 0);

  write_file(folder / "bad.json", R"({"train_batch_size": 32, "zero_optimization": {"stage": 7}})");
  CHECK(contains(refusal("import " + (folder / "bad.json") + kMachine),
                 "zero_optimization.stage: error: plan.zero=7 is out of range"));
  CHECK(contains(refusal("import scenarios/moe.yaml"),
                 "this is no configuration that is known; known are DeepSpeed JSON"));
}
