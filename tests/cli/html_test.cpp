#include <doctest/doctest.h>

#include <iterator>
#include <regex>

#include "tests/cli/program.h"
#include "tests/support/effort.h"

using namespace foretrain::testing;

namespace {
const std::string kScenario = "scenarios/gpt3-175b-1024xa100.yaml";
}

TEST_CASE("run writes a page that says how it was made") {
  const Folder folder;
  const Outcome outcome = run_program("run " + kScenario + " --html '" + (folder / "an answer.html") + "'");
  CHECK(outcome.status == 0);
  CHECK(contains(outcome.out, "GPT-3 175B"));  // the table is printed as well
  const std::string html = read_file(folder / "an answer.html");
  CHECK(html.starts_with("<!doctype html>"));
  CHECK(html.ends_with("-->\n"));
  CHECK(html.size() < 1'500'000);
  CHECK(contains(html, "\"command\":\"foretrain run " + kScenario + " --html '"));
  CHECK(contains(html, "/an answer.html'\""));
}

TEST_CASE("the page is the same for any number of threads, and may go to standard output") {
  const std::string scenario = "scenarios/zero-bubble.yaml";
  const Outcome one = run_program("run " + scenario + " --html - --threads 1");
  const Outcome four = run_program("run " + scenario + " --html - --threads 4");
  CHECK(one.status == 0);
  CHECK(one.out.starts_with("<!doctype html>"));
  const auto without_command = [](std::string text) {
    const std::size_t at = text.find("\"command\":");
    return text.erase(at, text.find(',', at) - at);
  };
  CHECK(without_command(one.out) == without_command(four.out));
}

TEST_CASE("the page opens in the language of --lang or of the locale, else in the browser's") {
  const auto page = [](const std::string& option, const std::string& locale) {
    return run_program("run " + kScenario + " --html - " + option, "LC_ALL=" + locale).out;
  };
  CHECK(contains(page("--lang zh", "en_US.UTF-8"), "\"language\":\"zh\""));
  CHECK(contains(page("", "zh_CN.UTF-8"), "\"language\":\"zh\""));
  CHECK(contains(page("", "en_US.UTF-8"), "\"language\":\"en\""));
  CHECK(contains(page("", "C.UTF-8"), "\"language\":null"));
}

TEST_CASE("a page that cannot be written is wrong usage, and nothing else is written") {
  const Folder folder;
  const Outcome outcome = run_program("run " + kScenario + " --json '" + (folder / "a.json") + "' --html '" +
                                      (folder / "no/such/a.html") + "'");
  CHECK(outcome.status == 2);
  CHECK(contains(outcome.err, "cannot write"));
  CHECK(!std::filesystem::exists(folder / "a.json"));
}

TEST_CASE("two texts do not go to one place") {
  const Folder folder;
  const std::string path = "'" + (folder / "a") + "'";
  const Outcome outcome = run_program("run " + kScenario + " --json " + path + " --html " + path);
  CHECK(outcome.status == 2);
  CHECK(contains(outcome.err, "two outputs cannot both be written to"));
  CHECK(!std::filesystem::exists(folder / "a"));
}

TEST_CASE("plan, scale, rent and lesson write pages, too, the same for any number of threads") {
  const Folder folder;
  const std::string small = " --model llama-2-7b --gpu a100-80g --global-batch 64 --zero 3";
  std::vector<std::string> commands = {"scale" + small + " --gpus 1,2,4", "lesson bubble",
                                       "plan" + small + " --gpus 4 --micro-batch 1",
                                       "rent scenarios/rent/3090-to-a100-40g.yaml"};
  if (kSanitized) commands.resize(2);
  for (const std::string& command : commands) {
    CAPTURE(command);
    const std::string path = folder / "page.html";
    const Outcome one = run_program(command + " --threads 1 --html '" + path + "'");
    CHECK(one.status == 0);
    CHECK(one.out.size() > 100);  // the table is printed as well
    const std::string html = read_file(path);
    CHECK(html.starts_with("<!doctype html>"));
    CHECK(html.size() < 1'500'000);
    CHECK(contains(html, "\"kind\":\"" + command.substr(0, command.find(' ')) + "\""));
    CHECK(contains(html, "\"command\":\"foretrain " + command.substr(0, command.find(' '))));
    CHECK(run_program(command + " --threads 1 --html -").out.size() > 100'000);
    run_program(command + " --threads 4 --quiet --html '" + path + "'");
    const auto without_command = [](std::string text) {
      const std::size_t at = text.find("\"command\":");
      return text.erase(at, text.find(",\"version\"", at) - at);
    };
    CHECK(without_command(read_file(path)) == without_command(html));
  }
}

TEST_CASE("a page of plans shows more of them; a lesson's page needs a lesson") {
  const std::string question = " --model llama-2-7b --gpu a100-80g --gpus 8 --global-batch 64";
  const auto plans = [&](const std::string& options) {
    const std::string out = run_program("plan" + question + options).out;
    const std::regex plan(R"("slower_by_s": ?(null|\d))");
    return std::distance(std::sregex_iterator(out.begin(), out.end(), plan), {});
  };
  CHECK(plans(" --json -") == 5);
  CHECK(plans(" --html -") == 20);
  CHECK(plans(" --top 3 --html -") == 3);
  CHECK(run_program("lesson --html -").status == 2);
}
