// What to rent, from outside.

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/cli/program.h"

using namespace foretrain::testing;
using nlohmann::json;

TEST_CASE("the questions of the articles are answered, each by one command") {
  for (const auto& entry : std::filesystem::directory_iterator(FORETRAIN_SOURCE_DIR "/scenarios/rent")) {
    if (entry.path().extension() != ".yaml") continue;
    const std::string file = "scenarios/rent/" + entry.path().filename().string();
    CAPTURE(file);
    const Outcome o = run_program("rent " + file + " --json -");
    CHECK(o.status == 0);
    REQUIRE(!o.out.empty());
    const json answer = json::parse(o.out);
    CHECK(answer["best"].is_number());
    CHECK(!answer["verdict"].get<std::string>().empty());
    const json best = answer["candidates"][answer["best"].get<std::size_t>()];
    CHECK(best["money"] > 0);
    CHECK(best["pareto"] == true);
    // The command that answers it stands in its header.
    CHECK(contains(read_file(entry.path()), "foretrain rent " + file));
  }
}

TEST_CASE("table, JSON and CSV say the same, for any number of threads") {
  const std::string file = "rent scenarios/rent/t4-to-a100-40g.yaml ";
  const Outcome one = run_program(file + "--json - --threads 1"), three = run_program(file + "--json - --threads 3");
  CHECK(one.status == 0);
  CHECK(one.out == three.out);
  const json answer = json::parse(one.out);
  const Outcome csv = run_program(file + "--csv -"), table = run_program(file);
  CHECK(std::count(csv.out.begin(), csv.out.end(), '\n') == static_cast<long>(answer["candidates"].size()) + 1);
  for (const json& c : answer["candidates"]) {
    CHECK(contains(table.out, c["offer"]["name"].get<std::string>()));
    CHECK(contains(csv.out, c["offer"]["name"].get<std::string>()));
  }
  CHECK(contains(table.out, "no other is both faster and cheaper"));
  CHECK(run_program(file + "--quiet").out.empty());
}

TEST_CASE("offers of one's own, deadline and budget come from the command line") {
  const Folder folder;
  write_file(folder / "mine.yaml",
             "currency: CNY\ndate: today\nsource: a seller\noffers:\n"
             "  - {name: card, machine: {gpu: a100-pcie-40gb, gpus: 1}, price: 5CNY/h}\n");
  const std::string command =
      "rent scenarios/rent/t4-to-a100-40g.yaml --offers '" + (folder / "mine.yaml") + "' --json - ";
  const json answer = json::parse(run_program(command + "--deadline 30d --budget 5000CNY").out);
  CHECK(answer["candidates"].size() == 1);
  CHECK(answer["candidates"][0]["offer"]["name"] == "mine/card");
  CHECK(answer["deadline_h"] == 720);
  // Nothing answers: that is an answer too.
  const Outcome never = run_program(command + "--deadline 1min");
  CHECK(never.status == 0);
  CHECK(json::parse(never.out)["best"].is_null());
  CHECK(contains(json::parse(never.out)["verdict"].get<std::string>(), "no offer finishes within"));
}

TEST_CASE("a job needs no file") {
  const Folder folder;
  write_file(folder / "mine.yaml",
             "currency: USD\ndate: today\nsource: a seller\noffers:\n"
             "  - {name: card, machine: {gpu: rtx4090-24gb, gpus: 1}, price: 0.4USD/h}\n");
  const Outcome o = run_program("rent --model llama-2-7b --peft qlora --tokens 1e7 --offers '" +
                                (folder / "mine.yaml") + "' --currency USD --json -");
  CHECK(o.status == 0);
  const json answer = json::parse(o.out);
  CHECK(answer["currency"] == "USD");
  CHECK(answer["candidates"][0]["offer"]["name"] == "mine/card");
  CHECK(run_program("rent --peft qlora --tokens 1e7").status == 2);
}

TEST_CASE("wrong questions are refused, and nothing is written") {
  const Folder folder;
  write_file(folder / "wrong.yaml", "base: {model: llama-2-7b}\nrent: {dedline: 3d}\n");
  const std::string out = folder / "out.json";
  for (const std::string& arguments :
       {std::string("rent none.yaml"), "rent '" + (folder / "wrong.yaml") + "' --json '" + out + "'",
        std::string("rent scenarios/rent/t4-to-a100-40g.yaml --deadline soon"),
        std::string("rent scenarios/rent/t4-to-a100-40g.yaml --budget much"),
        std::string("rent scenarios/rent/t4-to-a100-40g.yaml --offers nobody"), std::string("rent")}) {
    CAPTURE(arguments);
    const Outcome o = run_program(arguments);
    CHECK(o.status == 2);
    CHECK(o.out.empty());
    CHECK(!o.err.empty());
  }
  CHECK_FALSE(std::filesystem::exists(out));
  CHECK(contains(run_program("run scenarios/rent/t4-to-a100-40g.yaml").err, "foretrain rent"));
}

TEST_CASE("Ctrl-C ends a search with what was found so far") {
  const Folder folder;
  write_file(folder / "long.yaml",  // 640,000 plans, on one core
             "base:\n  model: gpt-3-175b\n  software: megatron-core\n"
             "  train: {seq_len: 2048, global_batch: 1536, precision: fp16, attention: standard, tokens: 300e9}\n"
             "rent:\n  max_gpus: 1024\n  machines: [128]\n"
             "  offers: [{name: one, machine: {node: dgx-a100-80g, fabric: hdr-rails}, price: 10USD/h}]\n");
  const Outcome o = run_program("rent '" + (folder / "long.yaml") + "' --json - --threads 1",
                                "timeout --foreground --preserve-status -s INT 2");
  CHECK(o.status == 0);
  const json answer = json::parse(o.out);
  CHECK(answer["complete"] == false);
  CHECK(std::any_of(answer["candidates"].begin(), answer["candidates"].end(), [](const json& c) {
    return c["why_not"].is_string() && contains(c["why_not"].get<std::string>(), "search was stopped");
  }));
}

TEST_CASE("offers are a catalogue like others") {
  const Outcome list = run_program("catalog offers");
  CHECK(list.status == 0);
  CHECK(contains(list.out, "idc10000"));
  CHECK(contains(run_program("catalog offers idc10000").out, "per_month: 2800"));
  CHECK(run_program("catalog offers nobody").status == 2);
}
