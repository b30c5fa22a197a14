#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/cli/program.h"
#include "tests/support/effort.h"

using namespace foretrain::testing;
using nlohmann::json;

namespace {

const char* const kTwoCases = R"(title: Which card?
ask: faster
base:
  model: llama-2-7b
  train: {seq_len: 1024, global_batch: 16, precision: bf16, optimizer: adamw, attention: flash2}
  software: deepspeed
  plan: {zero: 3, recompute: full, micro_batch: 1}
cases:
  - name: eight
    cluster: {gpu: a100-sxm4-80gb, gpus: 8, gpus_per_node: 8, intra: nvswitch}
  - name: four
    cluster: {gpu: a100-sxm4-40gb, gpus: 4, gpus_per_node: 4, intra: nvswitch}
)";

struct Scenario {
  Folder folder;
  std::string file = folder / "question.yaml";
  explicit Scenario(const std::string& text = kTwoCases) { write_file(file, text); }
};

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  text.replace(text.find(from), from.size(), to);
  return text;
}

}  // namespace

TEST_CASE("a command that there is not is named") {
  const Outcome o = run_program("explian x.yaml");
  CHECK(o.status == 2);
  CHECK(o.err == "foretrain: error: 'explian' is no command; did you mean 'explain'?; see foretrain --help\n");
  CHECK(contains(run_program("--frobnicate").err, "A subcommand is required"));
}

TEST_CASE("a good scenario is answered on standard output") {
  const Scenario s;
  const Outcome o = run_program("run " + s.file);
  CHECK(o.status == 0);
  CHECK(o.err == "");
  CHECK(contains(o.out, "Which card?"));
  CHECK(contains(o.out, "eight"));
  CHECK(contains(o.out, "GiB"));
  CHECK_FALSE(contains(o.out, "\x1b"));  // not a terminal
}

TEST_CASE("JSON on standard output is alone there") {
  const Scenario s;
  const Outcome o = run_program("run " + s.file + " --json -");
  CHECK(o.status == 0);
  const json answer = json::parse(o.out);
  REQUIRE(answer["cases"].size() == 2);
  CHECK(answer["verdict"]["winner"] == "eight");
  for (const json& one : answer["cases"]) {
    std::int64_t sum = 0;
    for (const json& part : one["breakdown_ps"]) sum += part.get<std::int64_t>();
    CHECK(sum == one["step_time_ps"].get<std::int64_t>());
    double shares = 0;
    for (const json& part : one["elasticity"]) shares += part.get<double>();
    CHECK(shares == doctest::Approx(1.0).epsilon(1e-6));
  }
}

TEST_CASE("files are written beside the table, quiet leaves it out") {
  const Scenario s;
  Outcome o = run_program("run " + s.file + " --json " + (s.folder / "a.json") + " --csv " + (s.folder / "a.csv"));
  CHECK(o.status == 0);
  CHECK(contains(o.out, "step time"));
  CHECK(json::accept(read_file(s.folder / "a.json")));
  CHECK(read_file(s.folder / "a.csv").starts_with("name,fits,step_time_s"));
  o = run_program("run " + s.file + " --quiet --csv -");
  CHECK(o.out == read_file(s.folder / "a.csv"));
  o = run_program("run " + s.file + " --quiet");
  CHECK(o.status == 0);
  CHECK(o.out == "");
}

TEST_CASE("a long file is replaced whole") {
  const Scenario s;
  write_file(s.folder / "a.json", std::string(1'000'000, 'x'));
  CHECK(run_program("run " + s.file + " --json " + (s.folder / "a.json")).status == 0);
  CHECK(json::accept(read_file(s.folder / "a.json")));
}

TEST_CASE("only the cases that were asked for") {
  const Scenario s;
  const Outcome o = run_program("run " + s.file + " --case four --json -");
  CHECK(json::parse(o.out)["cases"].size() == 1);
  const Outcome wrong = run_program("run " + s.file + " --case fuor --json -");
  CHECK(wrong.status == 2);
  CHECK(contains(wrong.err, "did you mean 'four'"));
  CHECK(wrong.out == "");
}

TEST_CASE("the same bytes from any number of threads") {
  const Scenario s;
  const Outcome one = run_program("run " + s.file + " --threads 1 --json -");
  CHECK(one.status == 0);
  CHECK(one.out == run_program("run " + s.file + " --threads 4 --json -").out);
  const std::string measured = "tests/scenario/data/sc21-megatron.yaml";
  const Outcome first = run_program("validate " + measured + " --threads 1 --json -");
  CHECK(first.status == 0);
  CHECK(first.out == run_program("validate " + measured + " --threads 4 --json -").out);
}

TEST_CASE("a plan that does not fit is an answer") {
  const Scenario s(replaced(kTwoCases, "zero: 3", "zero: 0"));
  const Outcome o = run_program("run " + s.file + " --json -");
  CHECK(o.status == 0);
  const json answer = json::parse(o.out);
  CHECK(answer["cases"][1]["fits"] == false);
  CHECK(answer["cases"][1]["missing_bytes"] > 0);
  CHECK(answer["cases"][1]["changes"].size() > 0);
}

TEST_CASE("bad input: status 2, a position, nothing on standard output, no file") {
  const auto check = [](const std::string& text, const std::string& part) {
    const Scenario s(text);
    const Outcome o = run_program("run " + s.file + " --json " + (s.folder / "a.json"));
    CHECK(o.status == 2);
    CHECK(o.out == "");
    CHECK_MESSAGE(contains(o.err, s.file + ":"), o.err);
    CHECK_MESSAGE(contains(o.err, part), o.err);
    CHECK_FALSE(std::filesystem::exists(s.folder / "a.json"));
  };
  check("title: [", "error");
  check("", "error");
  check(replaced(kTwoCases, "micro_batch", "micro_bach"), "micro_batch");
  check(replaced(kTwoCases, "a100-sxm4-80gb", "a100-sxm4-81gb"), "a100-sxm4-80gb");
  check(replaced(kTwoCases, "zero: 3", "zero: 3, tp: 3"), "tp");
  check(replaced(kTwoCases, "global_batch: 16", "global_batch: 1e30"), "global_batch");
}

TEST_CASE("a step of months is refused with its place, not an internal error") {
  std::string text = replaced(kTwoCases, "seq_len: 1024, global_batch: 16", "seq_len: 131072, global_batch: 8000000");
  text = replaced(text, "micro_batch: 1", "micro_batch: 1000000");
  text = replaced(text, "model: llama-2-7b", "model: llama-3.1-405b");
  const Scenario s(text);
  const Outcome o = run_program("run " + s.file + " --json -");
  CHECK(o.status == 2);
  CHECK(o.out == "");
  CHECK_MESSAGE(contains(o.err, s.file + ":"), o.err);
  CHECK_MESSAGE(contains(o.err, "more than 50 days"), o.err);
}

TEST_CASE("files that cannot be read") {
  const Folder folder;
  for (const std::string& path : {folder / "missing.yaml", folder.path().string()}) {
    for (const char* command : {"run ", "validate "}) {
      const Outcome o = run_program(command + path);
      CHECK(o.status == 2);
      CHECK(o.out == "");
      CHECK(contains(o.err, path));
    }
  }
}

TEST_CASE("places that cannot be written leave nothing behind") {
  const Scenario s;
  const std::string bad = s.folder / "no-such-folder/a.csv";
  const Outcome o = run_program("run " + s.file + " --json " + (s.folder / "a.json") + " --csv " + bad);
  CHECK(o.status == 2);
  CHECK(o.out == "");
  CHECK(contains(o.err, "cannot write " + bad));
  CHECK_FALSE(std::filesystem::exists(s.folder / "a.json"));

  write_file(s.folder / "old.json", "precious");
  CHECK(run_program("run " + s.file + " --json " + (s.folder / "old.json") + " --csv " + bad).status == 2);
  CHECK(read_file(s.folder / "old.json") == "precious");

  CHECK(run_program("run " + s.file + " --json " + s.folder.path().string()).status == 2);
  CHECK(run_program("run " + s.file + " --json /dev/full").status == 2);
  CHECK(run_program("run " + s.file + " --json /dev/null").status == 0);
}

TEST_CASE("usage") {
  CHECK(run_program("").status == 2);
  CHECK(run_program("runn x").status == 2);
  CHECK(run_program("run").status == 2);
  CHECK(run_program("run a.yaml --jsn -").status == 2);
  CHECK(run_program("run a.yaml --threads 0").status == 2);
  CHECK(run_program("run a.yaml --threads -1").status == 2);
  CHECK(run_program("run a.yaml --threads many").status == 2);
  CHECK(run_program("run a.yaml b.yaml").status == 2);
  CHECK(run_program("run a.yaml --json - --csv -").status == 2);
  for (const char* text : {"", "run", "run a.yaml --jsn -"}) CHECK(run_program(text).out == "");
  CHECK(contains(run_program("run").err, "give a scenario file, or --model and --gpu"));
  for (const char* command : {"", "run ", "validate ", "catalog ", "check-claims "}) {
    const Outcome o = run_program(std::string(command) + "--help");
    CHECK(o.status == 0);
    CHECK(o.err == "");
    CHECK(contains(o.out, "Examples:\n  foretrain "));
  }
  CHECK(run_program("--version").out.starts_with("foretrain 0."));
}

TEST_CASE("environment") {
  const Scenario s;
  const Outcome plain = run_program("run " + s.file, "COLUMNS=100");
  CHECK(run_program("run " + s.file, "COLUMNS=100 NO_COLOR=1").out == plain.out);
  CHECK(run_program("run " + s.file, "COLUMNS=nonsense").out == plain.out);
  CHECK(run_program("run " + s.file, "COLUMNS=60").out != plain.out);
  // A terminal is needed for colour: script(1) lends one.
  if (std::system("command -v script >/dev/null") == 0) {
    const auto on_terminal = [&](const std::string& variables) {
      const Folder folder;
      const std::string command = variables + " TERM=xterm script -qec \"'" FORETRAIN_BINARY "' run " + s.file +
                                  "\" /dev/null </dev/null >" + (folder / "out");
      CHECK(std::system(command.c_str()) == 0);
      return read_file(folder / "out");
    };
    CHECK(contains(on_terminal(""), "\x1b[1"));
    CHECK_FALSE(contains(on_terminal("NO_COLOR=1"), "\x1b["));
  }
}

TEST_CASE("tables speak the language of the locale or of --lang, JSON does not") {
  const Scenario s;
  const std::string ask = "run " + s.file;
  const Outcome english = run_program(ask), chinese = run_program(ask + " --lang zh");
  CHECK(chinese.status == 0);
  CHECK(contains(chinese.out, "步时"));
  CHECK_FALSE(contains(chinese.out, "step time"));
  CHECK(contains(english.out, "step time"));
  CHECK(run_program(ask, "LC_ALL=zh_CN.UTF-8").out == chinese.out);
  CHECK(run_program(ask + " --lang en", "LC_ALL=zh_CN.UTF-8").out == english.out);
  CHECK(run_program(ask + " --json - --lang zh").out == run_program(ask + " --json -").out);
  CHECK(run_program(ask + " --lang fr").status == 2);
}

TEST_CASE("data folder") {
  const Scenario s;
  const Folder empty;
  for (const Outcome& o : {run_program("run " + s.file + " --data " + empty.path().string()),
                           run_program("run " + s.file, "FORETRAIN_DATA=" + empty.path().string())}) {
    CHECK(o.status == 2);
    CHECK(contains(o.err, "no data in " + empty.path().string()));
  }
  CHECK(run_program("run " + s.file + " --data .", "FORETRAIN_DATA=" + empty.path().string()).status == 0);
}

TEST_CASE("catalogue") {
  for (const char* kind : {"models", "gpus", "nodes", "fabrics", "software"}) {
    const Outcome list = run_program(std::string("catalog ") + kind);
    CHECK(list.status == 0);
    const json listed = json::parse(run_program(std::string("catalog ") + kind + " --json -").out)[kind];
    REQUIRE(listed.size() > 0);
    const std::string name = listed[0]["name"];
    CHECK(contains(list.out, name));
    const Outcome shown = run_program(std::string("catalog ") + kind + " " + name);
    CHECK(shown.status == 0);
    CHECK(contains(shown.out, "name: " + name));
    CHECK(json::parse(run_program(std::string("catalog ") + kind + " " + name + " --json -").out)["name"] == name);
  }
  CHECK(run_program("catalog gpu H20").out == run_program("catalog gpus h20-sxm5-96gb").out);
  CHECK(json::parse(run_program("catalog models 7b --json -").out)["layers"] == 32);
  const Outcome typo = run_program("catalog gpus h200-sxm-142gb");
  CHECK(typo.status == 2);
  CHECK(contains(typo.err, "h200-sxm-141gb"));
  CHECK(run_program("catalog cards").status == 2);
  CHECK(run_program("catalog gpus ../models/gpt2").status == 2);
}

TEST_CASE("memory") {
  const Outcome table = run_program("memory 7b");
  CHECK(table.status == 0);
  CHECK(contains(table.out, "QLoRA"));
  CHECK(contains(table.out, "out of scope"));
  const json answer = json::parse(run_program("memory 7b --streams 4 --json -").out);
  CHECK(answer["model"] == "llama-2-7b");
  CHECK(answer["rows"][0]["parts"]["kv_cache"] == 4 * 4096.0 * 524288);
  for (const json& row : answer["rows"]) {
    double sum = 0;
    for (const auto& [name, bytes] : row["parts"].items()) sum += bytes.get<double>();
    CHECK(std::abs(sum - row["needed_bytes"].get<double>()) <= static_cast<double>(row["parts"].size()));
  }
  const Outcome typo = run_program("memory lama-2-7b");
  CHECK(typo.status == 2);
  CHECK(typo.out == "");
  CHECK(contains(typo.err, "llama-2-7b"));
  CHECK(run_program("memory").status == 2);
  CHECK(run_program("memory 7b --cards 0").status == 2);
}

TEST_CASE("validate") {
  const Outcome o = run_program("validate tests/scenario/data/sc21-megatron.yaml --json -");
  CHECK(o.status == 0);
  const json answer = json::parse(o.out);
  CHECK(answer["summary"]["cases"].get<std::size_t>() == answer["cases"].size());
  CHECK(answer["summary"]["mape"].get<double>() < 0.5);
  CHECK(answer["by_source"][0]["source"] == "sc21-megatron");
  CHECK(run_program("validate tests/scenario/data/sc21-megatron.yaml").status == 0);

  const Folder folder;
  write_file(folder / "bad.yaml", "cases: [{name: x, measured: {step_time: 1}}]");
  const Outcome bad = run_program("validate tests/scenario/data/sc21-megatron.yaml " + (folder / "bad.yaml"));
  CHECK(bad.status == 2);
  CHECK(bad.out == "");
  CHECK(contains(bad.err, "step_time_s"));
}

TEST_CASE("check-claims") {
  const Outcome all = run_program("check-claims");
  CHECK(all.status == 0);
  CHECK_MESSAGE(all.err == "", all.err);
  CHECK(contains(all.out, "confirmed  mem-7b-full-112"));
  CHECK(contains(all.out, "wrong  h100-10t-tokens-day"));
  if (!kSanitized) CHECK(run_program("check-claims --all", "COLUMNS=60").status == 0);

  const Outcome o = run_program("check-claims scenarios/claims/speed.yaml --threads 1 --json -");
  CHECK(o.status == 0);
  CHECK(o.out == run_program("check-claims scenarios/claims/speed.yaml --threads 4 --json -").out);
  const json answer = json::parse(o.out);
  std::size_t counted = 0;
  for (const auto& [verdict, count] : answer["summary"].items()) {
    if (verdict != "claims") counted += count.get<std::size_t>();
  }
  CHECK(counted == answer["claims"].size());
  for (const json& claim : answer["claims"]) {
    for (const json& check : claim["checks"]) CHECK(check["holds"].is_null() != check["waits_for"].empty());
  }

  const Folder folder;
  const std::string base =
      "base: {model: gpt2, software: deepspeed, cluster: {node: dgx-a100-80g, gpus: 1}, plan: {micro_batch: 1}}\n"
      "claims: [{id: x, claim: y, cases: [{name: one}], checks: [";
  write_file(folder / "metric.yaml", base + "{value: step_tims, of: one, at_least: 1}]}]\n");
  const Outcome metric = run_program("check-claims " + (folder / "metric.yaml") + " --json " + (folder / "a.json"));
  CHECK(metric.status == 2);
  CHECK(metric.out == "");
  CHECK_MESSAGE(contains(metric.err, "metric.yaml:2:"), metric.err);
  CHECK(contains(metric.err, "did you mean"));
  CHECK_FALSE(std::filesystem::exists(folder / "a.json"));
  write_file(folder / "wrong.yaml", base + "{value: step_time_s, of: tow}]}]\n");
  CHECK(run_program("check-claims " + (folder / "wrong.yaml")).status == 2);
  CHECK(run_program("check-claims " + (folder / "none.yaml")).status == 2);
}
