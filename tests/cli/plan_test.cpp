// The commands that look for plans, from outside.

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/cli/program.h"

using namespace foretrain::testing;
using nlohmann::json;

namespace {

const char* const kSmallPlan =
    "base:\n"
    "  model: {arch: llama, layers: 4, hidden: 256, heads: 4, ffn: 512, vocab: 1024}\n"
    "  train: {seq_len: 256, global_batch: 16, precision: bf16}\n"
    "  software: megatron-core\n"
    "  cluster: {gpu: a100-sxm4-40gb, gpus: 4, gpus_per_node: 4, intra: nvswitch}\n";

}  // namespace

TEST_CASE("plans are found, the same for any number of threads, as they were before") {
  const std::string expected = read_file(FORETRAIN_SOURCE_DIR "/tests/golden/plan/which-plan.json");
  for (const char* threads : {"1", "3"}) {
    const Outcome o =
        run_program(std::string("plan scenarios/which-plan.yaml --case PCIe --top 2 --json - --threads ") + threads);
    CHECK(o.status == 0);
    CHECK(o.out == expected);
  }
}

TEST_CASE("plan: auto is planned by run, and the answer says so") {
  const Folder folder;
  write_file(folder / "s.yaml", std::string(kSmallPlan) + "  plan: auto\n");
  const Outcome found = run_program("plan '" + (folder / "s.yaml") + "' --json -");
  const Outcome ran = run_program("run '" + (folder / "s.yaml") + "' --json -");
  REQUIRE(found.status == 0);
  REQUIRE(ran.status == 0);
  const json best = json::parse(found.out)["cases"][0]["plans"][0], answer = json::parse(ran.out)["cases"][0];
  CHECK(best["step_time_ps"] == answer["step_time_ps"]);
  CHECK(best["plan"] == answer["plan"]);
  CHECK(contains(answer["assumptions"].dump(), "plan: auto is the fastest of"));
}

TEST_CASE("what is fixed on the command line stays fixed") {
  const Folder folder;
  write_file(folder / "s.yaml", std::string(kSmallPlan) + "  plan: {zero: 1}\n");
  const Outcome o = run_program("plan '" + (folder / "s.yaml") + "' --fix tp=2,recompute=full --top 3 --json -");
  REQUIRE(o.status == 0);
  const json answer = json::parse(o.out);  // outlives the loop over its parts
  for (const json& found : answer["cases"][0]["plans"]) {
    CHECK(found["plan"]["tp"] == 2);
    // One replica has nothing to shard.
    CHECK(found["plan"]["zero"] == (found["plan"]["dp"] == 1 && !found["plan"].contains("cp") ? 0 : 1));
    CHECK(found["plan"]["recompute"] == "full");
  }
  CHECK(contains(run_program("plan '" + (folder / "s.yaml") + "'").out, "legal plans"));
}

TEST_CASE("a plan of one's own is ranked among all") {
  const Folder folder;
  write_file(folder / "s.yaml",
             std::string(kSmallPlan) + "  plan: {tp: 2, zero: 1, micro_batch: 1, recompute: full}\n");
  const std::string plan = "plan '" + (folder / "s.yaml") + "' --compare --software megatron-lm ";
  const json answer = json::parse(run_program(plan + "--top 1000 --json -").out)["cases"][0];
  const json own = answer["own"];
  CHECK(own["plan"]["tp"] == 2);
  CHECK(own["plan"]["recompute"] == "full");
  const json plans = answer["plans"];
  REQUIRE(plans.size() < 1000);  // so that they are all that fit
  std::int64_t faster = 0;
  for (const json& found : plans) faster += found["step_time_ps"] < own["step_time_ps"];
  CHECK(faster > 0);
  CHECK(own["faster_plans"] == faster);
  CHECK(own["faster_of_legal"] == static_cast<double>(faster) / answer["space"]["plans"].get<double>());
  // Exact also where few are asked for, and within what is fixed.
  CHECK(json::parse(run_program(plan + "--top 1 --json -").out)["cases"][0]["own"]["faster_plans"] == faster);
  const json fixed = json::parse(run_program(plan + "--fix 'tp=2,order=[tp,cp,ep,dp,pp]' --json -").out)["cases"][0];
  CHECK(fixed["own"]["faster_plans"] < faster);
  for (const json& found : fixed["plans"]) CHECK(found["plan"]["tp"] == 2);
  CHECK(contains(run_program(plan).out, "that fit are faster"));
  write_file(folder / "auto.yaml", std::string(kSmallPlan) + "  plan: auto\n");
  const Outcome nothing = run_program("plan '" + (folder / "auto.yaml") + "' --compare");
  CHECK(nothing.status == 2);
  CHECK(contains(nothing.err, "no plan of its own"));
}

// 640,000 plans, on one core.
const char* const kLong =
    "plan --model gpt-3-175b --node dgx-a100-80g --nodes 128 --fabric hdr-rails --global-batch 1536 --software "
    "megatron-core --attention standard --top 1 --threads 1 ";

TEST_CASE("Ctrl-C ends a search with the best so far") {
  const Outcome o = run_program(kLong, "timeout --foreground --preserve-status -s INT 2");
  CHECK(o.status == 0);
  CHECK(contains(o.out, "stopped before the end: a faster plan may exist"));
  CHECK(contains(o.out, "legal plans"));
  CHECK(o.err.find("% ") == std::string::npos);  // progress is for terminals
  const Outcome as_json =
      run_program(std::string(kLong) + "--json -", "timeout --foreground --preserve-status -s INT 2");
  CHECK(as_json.status == 0);
  CHECK(json::parse(as_json.out)["cases"][0]["complete"] == false);
}

TEST_CASE("wrong questions about plans are refused") {
  const Folder folder;
  write_file(folder / "s.yaml", std::string(kSmallPlan) + "  plan: auto\n");
  const std::string plan = "plan '" + (folder / "s.yaml") + "' ";
  for (const char* flags : {"--fix tp", "--fix tp=3", "--fix tpp=2", "--max-memory much", "--top 0", "--case nobody"}) {
    CAPTURE(flags);
    const Outcome o = run_program(plan + flags);
    CHECK(o.status == 2);
    CHECK(o.out.empty());
    CHECK(!o.err.empty());
  }
  write_file(folder / "open.yaml",
             "base: {model: llama-2-7b, cluster: {node: dgx-a100-80g}, plan: auto, software: deepspeed}\n");
  const Outcome open = run_program("run '" + (folder / "open.yaml") + "'");
  CHECK(open.status == 0);
  CHECK(contains(open.err, "train.global_batch is taken as 64: 8 sequences on each GPU"));
}

TEST_CASE("the framework follows what is fixed, and --show-scenario says so") {
  const std::string plan = "plan --model llama-2-7b --gpu a100-80g:8 --global-batch 32 --show-scenario ";
  CHECK(contains(run_program(plan + "--fix tp=2").out, "software: megatron-core"));
  CHECK(contains(run_program(plan + "--fix tp=2").out, "tp: 2"));
  CHECK(contains(run_program(plan + "--fix zero=3").out, "software: hf-deepspeed"));
  // As the same values written by flags.
  CHECK(run_program(plan + "--fix tp=2,zero=1").out == run_program(plan + "--tp 2 --zero 1").out);
  const Outcome wrong = run_program("plan --model llama-2-7b --gpu a100-80g:8 --fix tpp=2");
  CHECK(wrong.status == 2);
  CHECK(contains(wrong.err, "--fix tpp: error: unknown key 'tpp' in plan; did you mean"));
}

TEST_CASE("plans say how sure it is that the first is the fastest") {
  const Outcome o = run_program("plan scenarios/which-plan.yaml --case PCIe --top 4 --json -");
  const json plans = json::parse(o.out)["cases"][0]["plans"];
  REQUIRE(plans.size() == 4);
  CHECK(plans[0]["order_likelihood"].is_null());
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const double step = plans[i]["step_time_s"];
    CHECK(plans[i]["step_time_range_s"][0] <= step);
    CHECK(plans[i]["step_time_range_s"][1] >= step);
    if (i == 0) continue;
    const double sure = plans[i]["order_likelihood"];
    CHECK(sure >= 0.5);
    CHECK(sure < 1);
  }
  const std::string table = run_program("plan scenarios/which-plan.yaml --case PCIe --top 4").out;
  CHECK(contains(table, "sure: that plan 1 is the faster of the two."));
  CHECK(contains(table, "the first 2 plans are too close to call"));
}

TEST_CASE("Ctrl-C ends a curve with the sizes so far") {
  const Outcome o = run_program(
      "scale --model gpt-3-175b --node dgx-a100-80g --fabric hdr-rails --global-batch 1536 --software megatron-core "
      "--attention standard --plan auto --gpus 64,512,1024 --threads 1 --json -",
      "timeout --foreground --preserve-status -s INT 2");
  CHECK(o.status == 0);
  const json points = json::parse(o.out)["cases"][0]["points"];
  REQUIRE(points.size() == 3);
  CHECK(points[2]["report"].is_null());
  CHECK(contains(points[2]["why_not"].get<std::string>(), "stopped"));
  CHECK(points[2]["complete"] == false);
}

TEST_CASE("scaling curves keep or grow the batch") {
  const Folder folder;
  write_file(folder / "s.yaml", std::string(kSmallPlan) + "  plan: {zero: 1, micro_batch: 2}\n");
  const std::string scale = "scale '" + (folder / "s.yaml") + "' --gpus 1,2,4 --json - ";
  const json strong = json::parse(run_program(scale).out)["cases"][0]["points"];
  const json weak = json::parse(run_program(scale + "--weak").out)["cases"][0]["points"];
  REQUIRE(strong.size() == 3);
  CHECK(strong[0]["efficiency"] == 1.0);
  CHECK(strong[2]["report"]["train"]["global_batch"] == 16);
  CHECK(weak[0]["report"]["train"]["global_batch"] == 4);
  CHECK(strong[2]["report"]["step_time_ps"] == weak[2]["report"]["step_time_ps"]);
  CHECK(strong[2]["efficiency"] < 1.0);
  CHECK(weak[2]["efficiency"] > strong[2]["efficiency"]);
  CHECK(run_program("scale '" + (folder / "s.yaml") + "'").status == 2);
  CHECK(run_program("scale '" + (folder / "s.yaml") + "' --gpus 4,x").status == 2);
}
