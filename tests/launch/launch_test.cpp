// Plans as settings of other tools, and back again.

#include "sim/launch/launch.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <map>
#include <random>
#include <sstream>

#include "sim/interchange/import.h"
#include "tests/support/cases.h"

using namespace foretrain;
using namespace foretrain::testing;

namespace {

using Fields = std::map<std::string, std::string>;

Fields taken(const std::optional<Imported>& imported) {
  REQUIRE(imported);
  Fields fields;
  for (const Imported::Taken& t : imported->taken) fields[t.path] = t.text;
  return fields;
}

Fields read_back(const Case& c) {
  const auto settings = launch_settings(c);
  REQUIRE(settings);
  Diagnostics diagnostics;
  if (c.software.launcher == Software::Launcher::deepspeed) {
    const auto node = config::parse_yaml(settings->text, "ds.json", diagnostics);
    REQUIRE(node);
    return taken(import_file(*node, {{"--gpus", "cluster.gpus", fmt::format("{}", c.cluster.gpus)}}, diagnostics));
  }
  std::vector<std::string> words;
  std::istringstream text(settings->text);
  for (std::string word; text >> word;) {
    if (word != "\\") words.push_back(word);
  }
  return taken(import_command(words, {}, diagnostics));
}

std::string value(const Fields& fields, const char* path, const char* otherwise) {
  const auto found = fields.find(path);
  return found == fields.end() ? otherwise : found->second;
}

Case planned(const std::string& software, const std::string& model, const std::string& plan) {
  return case_of(
      fmt::format("model: {}\nsoftware: {}\ncluster: {{node: dgx-a100-80g, nodes: 4}}\n"
                  "train: {{seq_len: 2048, global_batch: 64, precision: bf16}}\nplan: {}",
                  model, software, plan));
}

}  // namespace

TEST_CASE("flags of Megatron-LM say the plan that was exported") {
  std::mt19937 random(7);
  const auto pick = [&random](auto... values) {
    const std::array all = {values...};
    return all[random() % all.size()];
  };
  for (int i = 0; i < 200; ++i) {
    const bool experts = pick(0, 1) == 1;
    const int tp = pick(1, 2, 4), pp = pick(1, 2, 4), vpp = pp > 1 ? pick(1, 2, 4) : 1, cp = pick(1, 2);
    const int zero = pp > 1 ? pick(0, 1) : pick(0, 1, 2, 3), ep = experts ? pick(1, 2) : 1;
    const std::string recompute = pick("none", "full", "blocks");
    const std::string plan = fmt::format(
        "{{tp: {}, pp: {}, vpp: {}, cp: {}, zero: {}, micro_batch: 1, sequence_parallel: {}, recompute: {}{}}}", tp, pp,
        vpp, cp, zero, tp > 1 ? "true" : "false",
        recompute == "blocks" ? fmt::format("{{blocks: {}}}", vpp) : recompute,
        experts ? fmt::format(", ep: {}, etp: 1", ep) : "");
    CAPTURE(plan);
    const Case c =
        planned("megatron-core",
                experts ? "{arch: moe, layers: 16, hidden: 1024, heads: 16, ffn: 4096, vocab: 32000, experts: "
                          "8, top_k: 2, expert_ffn: 1024}"
                        : "{arch: llama, layers: 16, hidden: 1024, heads: 16, ffn: 4096, vocab: 32000}",
                plan);
    const Fields back = read_back(c);
    const auto number = [](auto n) { return fmt::format("{}", n); };
    CHECK(value(back, "cluster.gpus", "") == "32");
    CHECK(value(back, "plan.tp", "1") == number(c.plan.tp));
    CHECK(value(back, "plan.pp", "1") == number(c.plan.pp));
    CHECK(value(back, "plan.vpp", "1") == number(c.plan.vpp));
    CHECK(value(back, "plan.cp", "1") == number(c.plan.cp));
    CHECK(value(back, "plan.zero", "0") == number(c.plan.zero));
    CHECK(value(back, "plan.micro_batch", "") == number(c.plan.micro_batch));
    CHECK(value(back, "plan.sequence_parallel", "false") == (c.plan.sequence_parallel ? "true" : "false"));
    CHECK(value(back, "train.global_batch", "") == "64");
    CHECK(value(back, "train.precision", "") == "bf16");
    if (recompute == "blocks") {
      CHECK(value(back, "plan.recompute.blocks", "0") == number(c.plan.recompute.blocks));
    } else {
      CHECK(value(back, "plan.recompute", "none") == recompute);
    }
    if (experts) CHECK(value(back, "plan.ep", "1") == number(c.plan.ep));
  }
}

TEST_CASE("a configuration of DeepSpeed says the plan that was exported") {
  for (const int zero : {0, 1, 2, 3}) {
    for (const char* offload : {"none", "optimizer", "{optimizer: nvme, params: cpu}"}) {
      if ((zero == 0 && std::string(offload) != "none") || (zero < 3 && offload[0] == '{')) continue;
      const std::string plan = fmt::format("{{zero: {}, micro_batch: 2, offload: {}, recompute: full}}", zero, offload);
      CAPTURE(plan);
      const Case c = planned("deepspeed", "llama-2-7b", plan);
      const Fields back = read_back(c);
      CHECK(value(back, "plan.zero", "0") == fmt::format("{}", zero));
      CHECK(value(back, "plan.micro_batch", "") == "2");
      CHECK(value(back, "train.global_batch", "") == "64");
      CHECK(value(back, "train.precision", "") == "bf16");
      CHECK(value(back, "plan.offload.optimizer", "none") ==
            (c.plan.offload.optimizer == Offload::Place::gpu ? "none" : to_string(c.plan.offload.optimizer)));
      CHECK(value(back, "plan.offload.params", "none") ==
            (c.plan.offload.params == Offload::Place::gpu ? "none" : to_string(c.plan.offload.params)));
      // The checkpointing is the model's.
      const auto settings = launch_settings(c);
      CHECK(std::any_of(settings->left_out.begin(), settings->left_out.end(),
                        [](const Message& m) { return m.english().starts_with("recompute full"); }));
    }
  }
}

TEST_CASE("what a tool cannot be told is said, and of others nothing is known") {
  const auto says = [](const Case& c, const std::string& beginning) {
    const auto settings = launch_settings(c);
    REQUIRE(settings);
    return std::any_of(settings->left_out.begin(), settings->left_out.end(),
                       [&](const Message& m) { return m.english().starts_with(beginning); });
  };
  CHECK(says(planned("megatron-core", "llama-2-7b", "{pp: 4, schedule: zero-bubble}"), "schedule zero-bubble"));
  CHECK_FALSE(says(planned("megatron-core", "llama-2-7b", "{pp: 4}"), "schedule"));
  CHECK(says(planned("deepspeed", "llama-2-7b", "{pp: 4, zero: 1}"), "pp 4: PipelineModule(num_stages=4)"));
  CHECK_FALSE(launch_settings(planned("torch-fsdp", "llama-2-7b", "{zero: 3}")));
}
