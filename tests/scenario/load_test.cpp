#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <string>

#include "sim/scenario/scenario.h"
#include "tests/scenario/support.h"
#include "tests/support/text.h"

namespace foretrain {
namespace {

using testing::contains;
using testing::kData;

struct Reading {
  std::optional<Scenario> scenario;
  Diagnostics said;

  std::string text() const { return testing::shown(said); }
};

Reading read(const std::string& yaml) {
  Reading r;
  const auto node = config::parse_yaml(yaml, "s.yaml", r.said);
  REQUIRE(node);
  r.scenario = read_scenario(*node, kData, r.said);
  return r;
}

const std::string kTwoCases = R"(
title: Which is faster?
ask: cheaper
base:
  model: llama-2-7b
  train: {seq_len: 4096, global_batch: 64, precision: bf16, attention: flash2, tokens: 1e9}
  software: megatron-lm
  cluster: {gpu: a100-sxm4-80gb, gpus: 8, gpus_per_node: 8, intra: nvswitch}
  plan: {tp: 2, micro_batch: 2, overlap: {grad_reduce: false}}
)";

TEST_CASE("cases start from the base and merge over it") {
  const Reading r = read(kTwoCases + R"(
cases:
  - name: as it is
  - name: changed
    train: {seq_len: 2048}
    plan: {tp: 4, overlap: {param_gather: true}}
    cluster: {gpus: 4, gpus_per_node: 4}
    price: {per_month: 20000, currency: CNY}
  - price: {per_hour: 9.5}
)");
  INFO(r.text());
  REQUIRE(r.scenario);
  CHECK(r.scenario->title == "Which is faster?");
  CHECK(r.scenario->ask == Scenario::Ask::cheaper);
  REQUIRE(r.scenario->cases.size() == 3);
  const Case &first = r.scenario->cases[0], &second = r.scenario->cases[1], &third = r.scenario->cases[2];
  CHECK(first.name == "as it is");
  CHECK(first.model.layers == 32);
  CHECK(first.train.seq_len == 4096);
  CHECK(first.train.tokens == 1e9);
  CHECK(first.cluster.gpus == 8);
  CHECK(first.plan.tp == 2);
  CHECK(first.plan.dp == 4);
  CHECK_FALSE(first.price);
  CHECK_FALSE(first.micro_batch_auto);

  CHECK(second.train.seq_len == 2048);
  CHECK(second.train.global_batch == 64);
  CHECK(second.cluster.gpus == 4);
  CHECK(second.cluster.gpu.name == "a100-sxm4-80gb");
  CHECK(second.plan.tp == 4);
  CHECK(second.plan.dp == 1);
  CHECK(second.plan.micro_batch == 2);
  CHECK_FALSE(second.plan.overlap.grad_reduce);
  CHECK(second.plan.overlap.param_gather);
  REQUIRE(second.price);
  CHECK(second.price->amount == 20000);
  CHECK(second.price->currency == "CNY");
  CHECK(second.price->per == Case::Price::Per::month);

  CHECK(third.name == "case 3");
  CHECK(third.price->currency == "USD");
  CHECK(third.price->per == Case::Price::Per::hour);
}

TEST_CASE("a base alone is a case") {
  const Reading r = read(kTwoCases);
  INFO(r.text());
  REQUIRE(r.scenario);
  CHECK(r.scenario->cases.size() == 1);
}

TEST_CASE("a model may be described in place") {
  const Reading r = read(R"(
cases:
  - model: {arch: gpt, layers: 24, hidden: 2048, heads: 16, ffn: 8192, gated: false, vocab: 51200, tied_embeddings: true}
    train: {seq_len: 2048, global_batch: 32, precision: fp16, attention: standard}
    software: megatron-lm
    cluster: {gpu: a100-sxm4-80gb, gpus: 8, gpus_per_node: 8, intra: nvswitch}
    plan: {micro_batch: 1}
)");
  INFO(r.text());
  REQUIRE(r.scenario);
  CHECK(r.scenario->cases[0].model.hidden == 2048);
}

TEST_CASE("what is left open is filled in and said") {
  const Reading r = read(R"(
cases:
  - model: llama-2-7b
    cluster: {gpu: a100-sxm4-80gb, gpus: 8, gpus_per_node: 8, intra: nvswitch}
  - name: old card
    model: gpt2
    cluster: {gpu: v100-sxm2-32gb, gpus: 8, gpus_per_node: 8, intra: nvswitch}
)");
  INFO(r.text());
  REQUIRE(r.scenario);
  const Case& c = r.scenario->cases[0];
  std::string assumed;
  for (const Message& line : c.assumptions) assumed += line.english() + "\n";
  CHECK(c.train.seq_len == 2048);
  CHECK(c.train.global_batch == 8);  // one sequence a GPU
  CHECK(c.train.precision == Precision::bf16);
  CHECK(c.train.attention == AttentionKernel::flash2);
  CHECK(c.plan.dp == 8);
  for (const char* said : {"train.seq_len is taken as 2048", "train.global_batch is taken as 8",
                           "train.precision is taken as bf16", "software is taken as megatron-core"}) {
    INFO(said);
    CHECK(contains(assumed, said));
  }
  CHECK_FALSE(contains(r.text(), "note:"));  // notes are the cases'

  const Case& old = r.scenario->cases[1];
  CHECK(old.train.precision == Precision::fp16);
  CHECK(old.train.attention == AttentionKernel::standard);
  CHECK(old.train.seq_len == 1024);  // GPT-2 has no more positions
}

TEST_CASE("the micro-batch may be left to be found") {
  const Reading asked = read(kTwoCases + "cases: [{plan: {micro_batch: auto}}]");
  REQUIRE(asked.scenario);
  CHECK(asked.scenario->cases[0].micro_batch_auto);
  CHECK(asked.scenario->cases[0].plan.micro_batch == 1);
  const Reading open = read(kTwoCases + "cases: [{plan: {micro_batch: null}}]");
  REQUIRE(open.scenario);
  CHECK(open.scenario->cases[0].micro_batch_auto);
  const Reading endless = read(kTwoCases + "cases: [{plan: {micro_batch: auto}, train: {global_batch: null}}]");
  CHECK(contains(endless.text(), "micro_batch auto needs train.global_batch"));
}

TEST_CASE("prices in one word") {
  const auto price = [](const std::string& text) { return read(kTwoCases + "cases: [{price: " + text + "}]"); };
  REQUIRE(price("2800CNY/month").scenario);
  CHECK(price("2800CNY/month").scenario->cases[0].price->amount == 2800);
  CHECK(price("2800CNY/month").scenario->cases[0].price->currency == "CNY");
  CHECK(price("2800CNY/month").scenario->cases[0].price->per == Case::Price::Per::month);
  CHECK(price("9.5/h").scenario->cases[0].price->per == Case::Price::Per::hour);
  CHECK(price("9.5/h").scenario->cases[0].price->currency == "USD");
  for (const char* wrong : {"2800", "CNY/month", "/", "2800CNY/", "2800CNY/week", "-1/h", "1e99/h", "2800 cny/h"}) {
    INFO(wrong);
    CHECK(contains(price(wrong).text(), "is not of the form 2800CNY/month or 9.5USD/hour"));
  }
}

TEST_CASE("warnings go with the case and with the file") {
  const Reading r = read(kTwoCases + "cases: [{plan: {tp: 1, sequence_parallel: true}}]");
  REQUIRE(r.scenario);
  REQUIRE(r.scenario->cases[0].warnings.size() == 1);
  CHECK(contains(r.text(), "s.yaml:10:43: warning: sequence_parallel has no effect with tp=1"));
}

TEST_CASE("wrong scenarios are reported where they are wrong") {
  CHECK(contains(read(kTwoCases + "cases: [{plam: {tp: 2}}]").text(),
                 "s.yaml:10:10: error: unknown key 'plam' in case; did you mean 'plan'"));
  CHECK(contains(read(kTwoCases + "caes: []").text(), "unknown key 'caes'; did you mean 'cases'"));
  CHECK(contains(read(kTwoCases + "cases: []").text(), "cases must be a list of at least one case"));
  CHECK(contains(read(kTwoCases + "cases: {a: 1}").text(), "cases must be a list of at least one case"));
  CHECK(contains(read(kTwoCases + "cases: [3]").text(), "case 1 must be a map"));
  CHECK(contains(read("title: nothing").text(), "cases is missing"));
  CHECK(contains(read("[1, 2]").text(), "must be a map"));
  CHECK(contains(read("ask: quicker\ncases: [{}]").text(), "is not one of faster, cheaper, fits"));
  CHECK(contains(read("base: [1]\ncases: [{}]").text(), "base must be a map"));
  CHECK(contains(read("base: {name: x}\ncases: [{}]").text(), "base cannot have a name"));
  CHECK(contains(read(kTwoCases + "cases: [{name: a}, {name: b}, {name: a}]").text(),
                 "s.yaml:10:38: error: a second case is called 'a', the first is in line 10; rename one"));
  CHECK(contains(read(kTwoCases + "cases: [{name: [a]}]").text(), "the name of a case must be text"));
  CHECK(contains(read("cases: [{name: x}]").text(), "case 'x' has no model"));
  CHECK(contains(read("cases: [{name: x}]").text(), "case 'x' has no cluster"));
  CHECK(contains(read(kTwoCases + "cases: [{software: {name: x}}]").text(),
                 "software must be the name of a framework profile"));
  CHECK(contains(read(kTwoCases + "cases: [{model: lama-2-7b}]").text(), "did you mean 'llama-2-7b'"));
  CHECK(contains(read(kTwoCases + "cases: [{software: megatron-ml}]").text(), "did you mean 'megatron-lm'"));
  CHECK(contains(read(kTwoCases + "cases: [{price: {per_hour: 1, per_month: 2}}]").text(), "write one"));
  CHECK(contains(read(kTwoCases + "cases: [{price: {currency: EUR}}]").text(),
                 "price needs per_hour, per_month or per_year"));
  CHECK(contains(read(kTwoCases + "cases: [{price: {per_hour: -1}}]").text(), "out of range"));
  CHECK(contains(read(kTwoCases + "cases: [{plan: {tp: 3}}]").text(), "tp=3 does not divide heads=32"));
  CHECK(contains(read(kTwoCases + "cases: [{plan: auto}]").text(), "plan=auto is not simulated yet"));
  CHECK(contains(read(kTwoCases + "cases: [{train: {precision: fp8}}]").text(),
                 "s.yaml:10:29: error: precision fp8 does not run on a100-sxm4-80gb; legal: fp32, tf32, fp16, bf16"));
  CHECK_FALSE(read(kTwoCases + "cases: [{}, {plan: {tp: 3}}]").scenario);
}

TEST_CASE("all cases' errors are reported, those of a shared base once") {
  const Reading r = read("base: {model: no-such-model}\ncases: [{name: a}, {name: b}, {name: c, model: nor-this}]");
  const auto count = [&r](const char* name) {
    return std::count_if(r.said.all().begin(), r.said.all().end(),
                         [&](const Diagnostic& d) { return contains(d.message.english(), name); });
  };
  CHECK(count("no-such-model") == 1);
  CHECK(count("nor-this") == 1);
}

TEST_CASE("sizes are bounded") {
  std::string many = kTwoCases + "cases:\n";
  for (int i = 0; i < 10001; ++i) many += "- {}\n";
  CHECK(contains(read(many).text(), "there are 10001 cases; at most 10000 are allowed"));
  std::string large = "base:\n";
  for (int i = 0; i < 1001; ++i) large += "  k" + std::to_string(i) + ": 1\n";
  CHECK(contains(read(large + "cases: [{}]").text(), "base has more than 1000 values"));
}

TEST_CASE("thousands of cases share what they have in common") {
  std::string many = kTwoCases + "cases:\n";
  for (int i = 0; i < 2000; ++i) many += "- {}\n";
  const auto start = std::chrono::steady_clock::now();
  const Reading r = read(many);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  REQUIRE(r.scenario);
  CHECK(r.scenario->cases.size() == 2000);
  CHECK(took.count() < 2.0);  // 0.04 s; a look-up of the catalogues for every case takes 3 s and more
}

TEST_CASE("files that are missing or are no scenario") {
  Diagnostics said;
  CHECK_FALSE(load_scenario(testing::kFolder + "no-such-file.yaml", kData, said));
  CHECK(said.has_errors());
}

TEST_CASE("a file of measured runs is a scenario too") {
  Diagnostics said;
  const auto scenario = load_scenario(testing::kFolder + "sc21-megatron.yaml", kData, said);
  for (const Diagnostic& d : said.all()) INFO(to_string(d));
  REQUIRE(scenario);
  REQUIRE(scenario->cases.size() == 4);
  CHECK(scenario->cases[2].name == "sc21-t1-145b");
  CHECK(scenario->cases[2].plan.vpp == 2);
  CHECK(scenario->cases[2].plan.schedule == PipelineSchedule::interleaved);
  CHECK(micro_batches(scenario->cases[2].plan, scenario->cases[2].train) == 48);
}

}  // namespace
}  // namespace foretrain
