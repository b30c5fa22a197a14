// Questions of what to rent.

#include "sim/scenario/rent_question.h"

#include <doctest/doctest.h>

#include "tests/scenario/support.h"
#include "tests/support/text.h"

using namespace foretrain;
using foretrain::testing::contains;
using foretrain::testing::kData;

namespace {

const std::string kBase =
    "title: t\nask: rent\nbase:\n  model: {arch: llama, layers: 4, hidden: 256, heads: 4, ffn: 512, vocab: 1024}\n"
    "  train: {seq_len: 256, global_batch: 16, tokens: 1e9}\n  software: deepspeed\n";

struct QuestionReading {
  std::optional<RentQuestion> question;
  std::string text;
};

QuestionReading read_question(const std::string& yaml, const RentOverrides& overrides = {}) {
  Diagnostics diagnostics;
  QuestionReading reading;
  if (const auto root = config::parse_yaml(yaml, "q.yaml", diagnostics)) {
    reading.question = read_rent_question(*root, "", kData, diagnostics, overrides);
  }
  reading.text = foretrain::testing::shown(diagnostics);
  return reading;
}

std::string own(const std::string& machine, const std::string& price = "1CNY/h", const std::string& more = "") {
  return "{name: own, machine: " + machine + ", price: " + price + more + "}";
}
const std::string kNode = "{gpu: a100-sxm4-40gb, gpus: 8, intra: nvswitch, nics: 8, nic_gbps: 200, net: infiniband}";

}  // namespace

TEST_CASE("a question says what is to be rented, by when and for how much") {
  const QuestionReading r =
      read_question(kBase + "rent: {deadline: 3d12h, budget: 2000CNY, offers: [" + own(kNode) +
                    "], max_gpus: 32, overhead: {setup: 30min, dataset: 300GB, network: 100Mb/s,\n"
                    "  checkpoint: {size: 80GB, rate: 2GB/s, every: 1h}, interrupted_every: 1d}}");
  INFO(r.text);
  REQUIRE(r.question);
  CHECK(r.question->deadline_hours == 84.0);
  CHECK(r.question->budget == 2000.0);
  CHECK(r.question->currency == "CNY");
  CHECK(r.question->overhead.setup_hours == 0.5);
  CHECK(r.question->overhead.restart_hours == 0.5);  // as the set-up
  CHECK(r.question->overhead.dataset.value == 300e9);
  CHECK(r.question->overhead.checkpoint_every_hours == 1.0);
  // 8, 16 and 32 GPUs.
  REQUIRE(r.question->candidates.size() == 3);
  CHECK(r.question->cases[2].cluster.gpus == 32);
  CHECK(r.question->cases[2].cluster.nodes() == 4);
  CHECK(r.question->candidates[2].units == 4);
}

TEST_CASE("machines that nothing joins are tried alone, cards of a machine by ones and twos") {
  const QuestionReading alone =
      read_question(kBase + "rent: {offers: [" + own("{gpu: a100-pcie-40gb, gpus: 1}") + "]}");
  REQUIRE(alone.question);
  CHECK(alone.question->candidates.size() == 1);
  const QuestionReading cards = read_question(
      kBase + "rent: {offers: [" + own("{gpu: a100-pcie-40gb, gpus: 1}", "1CNY/h", ", up_to_gpus: 6") + "]}");
  REQUIRE(cards.question);
  REQUIRE(cards.question->candidates.size() == 4);  // 1, 2, 4, 6
  CHECK(cards.question->candidates[3].units == 6);
  CHECK(cards.question->cases[3].cluster.gpus_per_node == 6);
  const QuestionReading asked = read_question(kBase + "rent: {machines: [1, 3], offers: [" + own(kNode) + "]}");
  REQUIRE(asked.question);
  CHECK(asked.question->cases[1].cluster.gpus == 24);
}

TEST_CASE("offers of the same machine share a case") {
  const QuestionReading r = read_question(kBase +
                                          "rent: {currency: USD, offers: [gpu-clouds/runpod-secure-h100-pcie-80g, "
                                          "gpu-clouds/runpod-community-h100-pcie-80g]}");
  INFO(r.text);
  REQUIRE(r.question);
  CHECK(r.question->candidates.size() == 2);
  CHECK(r.question->cases.size() == 1);
}

TEST_CASE("an offer on which the job cannot run, or cannot be compared, is left out by name") {
  const QuestionReading r = read_question(
      "base: {model: llama-2-7b, train: {seq_len: 2048, global_batch: 16, tokens: 1e9, precision: bf16}, software: "
      "deepspeed}\nrent: {currency: CNY, offers: [idc10000/a100-40g, idc10000/a16-slice, "
      "gpu-clouds/lambda-a10]}");
  INFO(r.text);
  REQUIRE(r.question);
  REQUIRE(r.question->candidates.size() == 3);
  CHECK(r.question->candidates[0].subject);
  CHECK_FALSE(r.question->candidates[1].subject);
  CHECK(contains(r.question->candidates[2].why_not.english(), "priced in USD, and there is no rate to CNY"));
}

TEST_CASE("samples and epochs are tokens") {
  const QuestionReading r = read_question(
      "base: {model: llama-2-7b, train: {seq_len: 1024, global_batch: 16, samples: 10k, epochs: 3}, software: "
      "deepspeed}"
      "\nrent: {offers: [" +
      own(kNode) + "]}");
  INFO(r.text);
  REQUIRE(r.question);
  CHECK(r.question->cases[0].train.tokens == 3.0 * 10000 * 1024);
}

TEST_CASE("the command line comes first") {
  const std::string file = kBase + "rent: {deadline: 3d, budget: 1CNY, offers: [" + own(kNode) + "]}";
  const QuestionReading r = read_question(file, {{"idc10000/8x-h100"}, "12h", "70000CNY", ""});
  INFO(r.text);
  REQUIRE(r.question);
  CHECK(r.question->deadline_hours == 12.0);
  CHECK(r.question->budget == 70000.0);
  CHECK(r.question->offers.size() == 1);
  CHECK(r.question->offers[0].name == "idc10000/8x-h100");
}

TEST_CASE("wrong questions are refused with what would be right") {
  const auto rent = [](const std::string& text) { return read_question(kBase + "rent: {" + text + "}").text; };
  const std::string offers = "offers: [" + own(kNode) + "], ";
  CHECK(contains(rent(offers + "deadline: soon"), "is not of the form 3d12h"));
  CHECK(contains(rent(offers + "budget: much"), "is not of the form 2000CNY"));
  CHECK(contains(rent(offers + "budget: 2000CNY, currency: USD"), "write one currency"));
  CHECK(contains(rent(offers + "machines: [1.5]"), "whole numbers"));
  CHECK(contains(rent(offers + "machines: [4000]"), "no offer can be compared: own is 32000 GPUs"));
  CHECK(contains(rent(offers + "max_gpus: 0"), "out of range"));
  CHECK(contains(rent(offers + "with: [ram]"), "no offer has the add-on 'ram'"));
  CHECK(contains(rent(offers + "overhead: {dataset: 3GB}"), "overhead.network is missing"));
  CHECK(contains(rent(offers + "exchange: [{from: USD, to: CNY, rate: 7}]"), "date"));
  CHECK(contains(rent(offers + "dedline: 3d"), "deadline"));
  CHECK(contains(rent("offers: [idc10000/t4, gpu-clouds/lambda-a10]"), "the offers are in CNY and USD"));
  CHECK(contains(rent("currency: EUR, offers: [idc10000/t4]"), "no offer can be compared"));
  CHECK(contains(rent("offers: [{}]"), "machine is missing"));
  CHECK(contains(rent("offers: [purchases]"), "no offer to choose from"));
  CHECK(contains(read_question("rent: {}").text, "base is missing"));
  CHECK(contains(read_question(kBase + "cases: []\n").text, "cases"));
  CHECK(contains(read_question(kBase + "  cluster: {node: dgx-a100-80g}\nrent: {}").text,
                 "the machines come from the offers"));
  const std::string idle = "base: {model: llama-2-7b, train: {seq_len: 2048, global_batch: 8}, software: deepspeed}\n";
  CHECK(contains(read_question(idle + "rent: {" + offers + "}").text, "write train.tokens"));
  // What is wrong with the job itself is said once, not as the fault of every offer.
  const std::string wrong = "base: {model: lama-2-7b, train: {seq_len: 2048, global_batch: 8, tokens: 1}}\n";
  const std::string text = read_question(wrong + "rent: {offers: [idc10000]}").text;
  CHECK(contains(text, "did you mean 'llama-2-7b'"));
  CHECK(text.find("lama-2-7b", text.find("did you mean") + 30) == std::string::npos);
}
