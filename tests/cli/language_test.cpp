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
  const std::set<std::string> otherwise = {"catalog",
                                           "calibrate"};  // the one is tested above, the other not under sanitizers
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
