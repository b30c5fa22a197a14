// Every command that prints for people does so in Chinese, too.
#include <doctest/doctest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "tests/cli/question.h"
#include "tests/support/effort.h"

using namespace foretrain::testing;

namespace {

// Words and phrases that the catalogue says otherwise in Chinese.
std::set<std::string> translated_words() {
  std::set<std::string> words;
  std::istringstream catalogue(read_file(FORETRAIN_SOURCE_DIR "/configs/text/zh.yaml"));
  const std::regex entry(R"re(^"([^{}"]+)": "([^"]+)"$)re");
  std::smatch parts;
  for (std::string line; std::getline(catalogue, line);) {
    if (std::regex_match(line, parts, entry) && parts[1] != parts[2]) words.insert(parts[1]);
  }
  return words;
}

// What stands alone in a table or on a line: texts between two spaces or more.
std::set<std::string> cells(const std::string& text) {
  std::set<std::string> all;
  std::istringstream lines(text);
  const std::regex gap(" {2,}");
  for (std::string line; std::getline(lines, line);) {
    for (std::sregex_token_iterator cell(line.begin(), line.end(), gap, -1), end; cell != end; ++cell)
      all.insert(*cell);
  }
  return all;
}

std::set<std::string> shared(const std::set<std::string>& a, const std::set<std::string>& b) {
  std::set<std::string> both;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::inserter(both, both.end()));
  return both;
}

std::string listed(const std::set<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += "'" + word + "' ";
  return text;
}

// By subcommand.
std::multimap<std::string, std::string> commands(const std::string& question) {
  std::multimap<std::string, std::string> all = {
      {"run", "run " + question},
      {"plan", "plan " + question},
      {"scale", "scale --gpus 1,3,4 " + question},
      {"explain", "explain " + question},
      {"diagnose", "diagnose --case four --line '10/20 [01:40<01:40, 10.0s/it]' " + question},
      {"diagnose",
       "diagnose --case four --line 'CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total "
       "capacity of 39.39 GiB' " +
           question},
      {"advise", "advise --deadline 1h " + question},
      {"rent", "rent scenarios/rent/8x40g-or-8x80g.yaml"},
      {"memory", "memory llama-2-7b"},
      {"lesson", "lesson bubble"},
      {"validate", "validate tests/scenario/data/sc21-megatron.yaml"},
      {"check-claims", "check-claims scenarios/claims/speed.yaml"}};
  if (!kSanitized) all.emplace("calibrate", "calibrate");
  return all;
}

}  // namespace

TEST_CASE("no heading of a table and no word of a cell is left in English" * doctest::skip(kSanitized)) {
  const std::set<std::string> words = translated_words();
  REQUIRE(words.size() > 100);
  const Question q;
  for (const auto& [name, arguments] : commands(q.file)) {
    CAPTURE(arguments);
    const Outcome english = run_program(arguments + " --lang en"), chinese = run_program(arguments + " --lang zh");
    CHECK(english.status == 0);
    CHECK(chinese.status == 0);
    CHECK(shared(cells(english.out), words).size() > 0);
    std::set<std::string> left = shared(cells(chinese.out), words);
    if (name == "calibrate") left.erase("memory");  // a key of its files
    CHECK_MESSAGE(left.empty(), listed(left));
  }
}

TEST_CASE("formulas, the list of a catalogue and that of the lessons are said in Chinese") {
  const Question q;
  CHECK(contains(run_program("explain --lang zh --figure mfu " + q.file).out, "仿真的步时"));
  const std::string gpus = run_program("catalog gpus --lang zh").out;
  CHECK(contains(gpus, "又名"));
  CHECK_FALSE(contains(gpus, " shows one"));
  CHECK(contains(run_program("lesson --lang zh").out, "流水线气泡从何而来"));
}

TEST_CASE("every command with --lang is among those above") {
  const std::multimap<std::string, std::string> checked = commands("");
  // catalog is tested above, calibrate not under sanitizers; the others print files, not tables.
  const std::set<std::string> otherwise = {"catalog", "calibrate", "init", "import", "export", "schema"};
  std::istringstream help(run_program("--help").out);
  std::size_t found = 0;
  const std::regex subcommand(R"(^  ([a-z-]+)  +\S.*$)");
  std::smatch parts;
  for (std::string line; std::getline(help, line);) {
    if (!std::regex_match(line, parts, subcommand)) continue;
    const std::string name = parts[1];
    if (!contains(run_program(name + " --help").out, "--lang")) continue;
    ++found;
    CHECK_MESSAGE((checked.contains(name) || otherwise.contains(name)), name);
  }
  CHECK(found >= 13);
}

TEST_CASE("--help speaks the language that is asked for, wherever --lang stands") {
  const std::string english = run_program("--help").out, chinese = run_program("--lang zh --help").out;
  CHECK(contains(english, "Usage: foretrain [OPTIONS] SUBCOMMAND\n"));
  CHECK(contains(chinese, "用法: foretrain [选项] 子命令\n"));
  CHECK(run_program("--help --lang zh").out == chinese);
  CHECK(run_program("--help", "LC_ALL=zh_CN.UTF-8").out == chinese);
  CHECK(run_program("--help --lang en", "LC_ALL=zh_CN.UTF-8").out == english);
  CHECK(run_program("run --help --lang zh").out == run_program("--lang zh run --help").out);
}

TEST_CASE("every description of --help is translated") {
  const std::regex subcommand(R"(^  ([a-z-]+)  +\S.*$)"), option(R"(^  (-\S+.*?|[A-Z]+ .*?)  +(\S.*)$)"),
      below(R"(^ {30}(\S.*)$)"), ascii(R"([\x00-\x7f]*)");
  std::istringstream program(run_program("--help").out);
  std::size_t descriptions = 0;
  std::smatch parts;
  for (std::string line; std::getline(program, line);) {
    if (!std::regex_match(line, parts, subcommand)) continue;
    const std::string name = parts[1];
    std::istringstream chinese(run_program(name + " --help --lang zh").out);
    for (std::string ours; std::getline(chinese, ours);) {
      const bool beside = std::regex_match(ours, parts, option);
      if (!beside && !std::regex_match(ours, parts, below)) continue;
      ++descriptions;
      CHECK_MESSAGE(!std::regex_match(parts[beside ? 2 : 1].str(), ascii), name << ": " << ours);
    }
  }
  CHECK(descriptions > 400);
}

TEST_CASE("errors speak the language that is asked for and keep their form") {
  const Folder folder;
  write_file(folder / "wrong.yaml",
             "base: {model: llama-2-7b, train: {seq_len: many}}\n"
             "cases:\n"
             "  - {name: a, cluster: {gpu: a100-80g, gpus: 8}, plan: {tp: 3, zreo: 1}}\n");
  const std::string file = folder / "wrong.yaml";
  const auto said = [](const std::string& command) {
    const Outcome o = run_program(command);
    CHECK(o.status == 2);
    CHECK(o.out == "");
    return o.err;
  };
  CHECK(said("run " + file + " --lang zh") == file + ":1:44: 错误：train.seq_len：'many' 不是整数\n" +  //
                                                  file +
                                                  ":3:64: 错误：未知的键 'zreo'（位于 plan）；是否想写 'zero'？\n");
  CHECK(contains(said("run " + file), ":1:44: error: train.seq_len: 'many' is not a whole number\n"));
  CHECK(
      said("run --lang zh") ==
      "错误：没有可回答的问题；请给出场景文件，或 --model 与 --gpu，例如 --model llama-2-7b --gpu a100-80g --gpus 8\n");
  CHECK(said("run nowhere.yaml --lang zh") == "nowhere.yaml: 错误：无法读取：没有这个文件或目录\n");
  CHECK(said("run --model llama-2-7b --gpu a100-81g:8 --lang zh")
            .starts_with("--gpu: 错误：没有 GPU：'a100-81g'；是否想写 '"));
  CHECK(contains(said("run --model llama-2-7b --gpu a100-80g:8 --tp 3 --lang zh"),
                 "错误：tp=3 不能整除 heads=32；可用："));
  // Of the parser of the command line.
  CHECK(contains(said("run --lang zh a.yaml --jsn -"), "foretrain: 错误：多余的参数：- --jsn；是否想写 '--json'"));
  CHECK(said("--lang zh") == "foretrain: 错误：需要一个子命令；见 foretrain --help\n");
  CHECK(said("run a.yaml --lang zh --threads 0") ==
        "foretrain: 错误：--threads：0 不在 1 到 4096 之间；见 foretrain run --help\n");
  CHECK(said("run a.yaml --lang zh --threads") ==
        "foretrain: 错误：--threads：缺少 1 个 N:INT in [1 - 4096] 值；见 foretrain run --help\n");
  CHECK(said("memory --lang zh") == "foretrain: 错误：必须给出 --model；见 foretrain memory --help\n");
  CHECK(said("frobnicate --lang zh") == "foretrain: 错误：'frobnicate' 不是命令；见 foretrain --help\n");
  CHECK(contains(said("run a.yaml --lang fr"), "--lang: fr not in {en,zh}"));
}
