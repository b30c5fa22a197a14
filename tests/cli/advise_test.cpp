#include <doctest/doctest.h>

#include "tests/cli/question.h"

using namespace foretrain::testing;
using nlohmann::json;

TEST_CASE("advise: from one card to the cluster, the same for any number of threads") {
  const Question q;
  const Outcome o = run_program("advise " + q.file + " --case four");
  CHECK(o.status == 0);
  CHECK(contains(o.out, "One card is enough"));
  CHECK(contains(o.out, "2 free to try there"));
  CHECK(contains(o.out, "3 then more hardware"));
  const Outcome one = run_program("advise " + q.file + " --case four --deadline 1d --json - --threads 1");
  CHECK(one.out == run_program("advise " + q.file + " --case four --deadline 1d --json - --threads 3").out);
  CHECK(json::parse(one.out)["cases"][0]["sizes"].size() == 3);
  for (const char* wrong : {"--deadline soon", "--deadline -3d", "--tokens many", "--mean-tokens 0"}) {
    CAPTURE(wrong);
    const Outcome refused = run_program("advise " + q.file + " " + wrong);
    CHECK(refused.status == 2);
    CHECK(refused.out == "");
  }
}

namespace {

const char* const kOffers =
    "currency: USD\ndate: today\nsource: a seller\noffers:\n"
    "  - {name: card, machine: {gpu: rtx4090-24gb, gpus: 1}, price: 0.4USD/h}\n"
    "  - {name: eight, machine: {node: dgx-h100}, price: 20USD/h}\n";

}  // namespace

TEST_CASE("advise: where no GPU is named, the cheapest of what is offered that does") {
  const Folder folder;
  write_file(folder / "offers.yaml", kOffers);
  const std::string job =
      "advise --model llama-2-7b --peft qlora --tokens 1e8 --offers '" + (folder / "offers.yaml") + "' ";
  const Outcome table = run_program(job + "--deadline 2d");
  CHECK(table.status == 0);
  CHECK(contains(table.out, "One card is enough: rent offers/card"));
  CHECK(contains(table.out, "2 free to try there"));
  CHECK(contains(table.out, "3 then more hardware"));
  CHECK(contains(table.out, "train.global_batch is taken as 64"));
  const auto advised = [&](const std::string& more) {
    return json::parse(run_program(job + more + " --json - --threads 1").out)["cases"][0];
  };
  const json easy = advised("--deadline 2d"), tight = advised("--deadline 2h");
  CHECK(easy["gpus"] == 1);
  CHECK(tight["gpus"] == 8);
  CHECK(tight["meets_deadline"] == true);
  CHECK(easy["offered"]["steps"].size() == 3);
  const auto money = [](const json& c) {
    return c["offered"]["rent"]["candidates"][c["offered"]["rent"]["best"].get<std::size_t>()]["money"].get<double>();
  };
  CHECK(money(easy) < money(tight));
  CHECK(run_program(job + "--json - --threads 1").out == run_program(job + "--json - --threads 3").out);
  // Nothing is as quick as that.
  CHECK(advised("--deadline 1min")["gpus"].is_null());
}

TEST_CASE("advise: a machine that cannot do it is answered with one that would") {
  const Folder folder;
  write_file(folder / "offers.yaml", kOffers);
  write_file(folder / "wrong.yaml", "offers: [{name: card}]\n");
  const std::string job =
      "advise --model llama-2-70b --peft lora --gpu rtx4090 --gpus 1 --seq-len 1024 --global-batch 8 --tokens 1e7 ";
  // Host memory holds the weights of one that is left to choose.
  CHECK(contains(run_program(job + "--set software=hf-deepspeed").out,
                 "on 1 it fits with: optimizer and weights in host memory"));
  const std::string small = job + "--set cluster.host.dram_gb=64 --offers '";
  const Outcome o = run_program(small + (folder / "offers.yaml") + "'");
  CHECK(o.status == 0);
  CHECK(contains(o.out, "It does not fit on a single rtx4090-24gb"));
  CHECK(contains(o.out, "What would: "));
  CHECK(contains(o.out, "rent offers/"));
  const Outcome refused = run_program(small + (folder / "wrong.yaml") + "'");
  CHECK(refused.status == 2);
  CHECK(refused.out == "");
  CHECK(contains(refused.err, "wrong.yaml:1"));
}

TEST_CASE("advise: without a GPU a model is still needed, and offers that there are") {
  for (const char* wrong : {"--peft qlora", "--model llama-2-7b --offers nobody", "--model llama-2-7b --budget much",
                            "--model no-such-model", "--model llama-2-7b --deadline soon"}) {
    CAPTURE(wrong);
    const Outcome refused = run_program(std::string("advise ") + wrong);
    CHECK(refused.status == 2);
    CHECK(refused.out == "");
    CHECK(contains(refused.err, "error"));
  }
}
