#include "sim/page/page.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "sim/report/case_figures.h"
#include "sim/report/json.h"
#include "tests/support/cases.h"
#include "tests/support/files.h"

using namespace foretrain;
using namespace foretrain::page;
using foretrain::testing::contains;
using foretrain::testing::data_folder;
using foretrain::testing::environment;
using nlohmann::json;

namespace {

Template the_template() {
  Diagnostics diagnostics;
  auto page = load_template(data_folder(), diagnostics);
  REQUIRE_MESSAGE(page, (diagnostics.all().empty() ? "" : to_string(diagnostics.all().front())));
  return *page;
}

report::RunReport answer_to(const std::string& title, const std::vector<std::string>& names) {
  report::RunReport answer;
  answer.title = title;
  for (const std::string& name : names) {
    Case c = foretrain::testing::case_of(
        "model: gpt-3-1.3b\n"
        "train: {seq_len: 2048, global_batch: 16, precision: bf16, optimizer: adamw, attention: flash2}\n"
        "software: megatron-core\n"
        "cluster: {node: dgx-a100-80g}\n"
        "plan: {pp: 2, micro_batch: 1}\n");
    c.name = name;
    answer.cases.push_back(foretrain::testing::simulate_plainly(c));
    answer.cases.back().name = name;
  }
  answer.verdict.winner = names.front();
  answer.verdict.findings = {{Message(std::string("it is alone"))}};
  return answer;
}

std::string block(const std::string& html, const std::string& id) {
  const std::string open = "<script type=\"application/json\" id=\"" + id + "\">";
  const std::size_t begin = html.find(open) + open.size();
  return html.substr(begin, html.find("</script>", begin) - begin);
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t times = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++times;
  return times;
}

void add_keys(const json& node, const std::string& path, std::set<std::string>& keys) {
  if (!node.is_object()) {
    keys.insert(path);
    return;
  }
  for (const auto& [key, value] : node.items()) add_keys(value, path + "/" + key, keys);
}

}  // namespace

TEST_CASE("the page holds the answer as JSON has it, and what pictures need beside it") {
  const report::RunReport answer = answer_to("A question", {"one", "two"});
  const std::string html =
      run_page(answer, environment(), the_template(), {"foretrain run x.yaml --html x.html", "1.2"});
  json in_page = json::parse(block(html, "answer"));
  const json view = in_page["view"];
  in_page.erase("view");
  CHECK(in_page == json::parse(report::run_json(answer)));
  CHECK(view["command"] == "foretrain run x.yaml --html x.html");
  CHECK(view["version"] == "1.2");
  REQUIRE(view["cases"].size() == 2);
  CHECK(view["cases"][1]["pipeline"]["stages"].size() == 2);
  CHECK(!view["cases"][1]["roofline"]["operators"].empty());
  CHECK(!view["cases"][1]["topology"]["links"].empty());
}

// The answer in the page, without what the page adds.
std::pair<json, json> answer_and_view(const std::string& html) {
  json answer = json::parse(block(html, "answer"));
  json view = answer["view"];
  answer.erase("view");
  return {std::move(answer), std::move(view)};
}

TEST_CASE("pages of plans, scaling curves, machines to rent and lessons hold their answers") {
  const Template page = the_template();
  Case open = foretrain::testing::case_of(
      "model: gpt-3-1.3b\n"
      "train: {seq_len: 2048, global_batch: 16, precision: bf16}\n"
      "software: megatron-core\n"
      "cluster: {node: dgx-a100-80g}\n"
      "plan: {pp: 1, micro_batch: 1}\n");
  open.open_plan = PlanRequest{};
  Diagnostics diagnostics;

  const std::vector<PlanAnswer> plans = {*find_plans(open, environment(), {.top = 3}, diagnostics)};
  const auto [planned, plan_view] = answer_and_view(plan_page("P", plans, environment(), page, {"", ""}));
  CHECK(planned == json::parse(report::plans_json("P", plans)));
  CHECK(plan_view["kind"] == "plan");
  CHECK(plan_view["cases"].size() == 3);
  CHECK(plan_view["cases"][2]["pipeline"]["stages"].size() == planned["cases"][0]["plans"][2]["plan"]["pp"]);
  REQUIRE(plan_view["findings"].size() == 1);
  const std::string found = plan_view["findings"][0]["said"];
  CHECK(contains(found, "the fastest of"));
  CHECK(contains(plan_view["sentences"]["zh"][found].get<std::string>(), "最快"));

  const std::vector<report::ScaledCase> curves = {{open, scale(open, environment(), {{2, 3, 4}, false, {.top = 1}})}};
  const auto [scaled, scale_view] = answer_and_view(scale_page("S", curves, false, environment(), page, {"", ""}));
  CHECK(scaled == json::parse(report::scale_json("S", curves, false)));
  REQUIRE(scale_view["cases"].size() == 3);  // one a size, also where no plan is possible
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(scale_view["cases"][i].is_null() == scaled["cases"][0]["points"][i]["report"].is_null());
  }

  const auto question =
      load_rent_question(data_folder().path + "/scenarios/rent/t4-to-a100-40g.yaml", data_folder(), diagnostics, {});
  REQUIRE(question);
  const RentAnswer rented = rent(*question, environment(), {});
  const auto [machines, rent_view] = answer_and_view(rent_page(*question, rented, page, {"", ""}));
  CHECK(machines == json::parse(report::rent_json(*question, rented)));
  CHECK(rent_view["machines"].size() == machines["candidates"].size());
  CHECK(rent_view["findings"][0]["said"] == machines["verdict"]);

  const auto lesson = load_lesson(lesson_path(data_folder(), "what-if"), data_folder(), diagnostics);
  REQUIRE(lesson);
  const SimulateFigures simulate = [](const Case& c) {
    return report::case_figures(simulate_case(c, environment(), {.with_advice = false, .with_elasticity = false}));
  };
  const auto performed = perform(*lesson, simulate, 2, diagnostics);
  const auto explored = explore(*lesson->what_if, simulate, 2, diagnostics);
  REQUIRE(performed);
  REQUIRE(explored);
  const std::string html = lesson_page(*performed, &*explored, page, {"", ""});
  CHECK(html.size() < 1'500'000);
  const auto [taught, lesson_view] = answer_and_view(html);
  CHECK(taught == json::parse(report::lesson_json(*performed, &*explored)));
  CHECK(lesson_view["figures"][0][1]["form"] == "bytes");
  CHECK(lesson_view["sentences"]["zh"]["as it is"] == "原样");
}

TEST_CASE("what the program says is on the page in Chinese too, and the language it opens in") {
  report::RunReport answer = answer_to("A question", {"one", "two"});
  answer.verdict.findings = {
      {message("with {}: {}", "</script>", message("no case fits")), {message("it spends {}", "money")}}};
  answer.cases[1].warnings.push_back(message("train.seq_len is taken as {}", 2048));
  const std::string html = run_page(answer, environment(), the_template(), {"", "", "zh"});
  const json view = json::parse(block(html, "answer"))["view"];
  CHECK(view["language"] == "zh");
  CHECK(view["findings"][0]["said"] == "with </script>: no case fits");
  CHECK(view["sentences"]["zh"]["with </script>: no case fits"] == "换成 </script>：没有一个方案放得下");
  CHECK(view["sentences"]["zh"]["it spends money"] == "其中 money");
  CHECK(view["sentences"]["zh"]["train.seq_len is taken as 2048"] == "train.seq_len 取 2048");
  CHECK(json::parse(block(run_page(answer, environment(), the_template(), {"", ""}), "answer"))["view"]["language"]
            .is_null());
}

TEST_CASE("the page loads nothing from elsewhere") {
  const std::string html = run_page(answer_to("A question", {"one"}), environment(), the_template(), {"", ""});
  CHECK(html.starts_with("<!doctype html>"));
  CHECK(contains(
      html, "content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:\""));
  for (const char* way :
       {"<script src", "<img", "<iframe", "<object", "<embed", "<base", "@import", "url(http", "url(//", "fetch(",
        "XMLHttpRequest", "WebSocket", "sendBeacon", "import(", "href=\"http", "src=\"http"}) {
    CHECK_MESSAGE(!contains(html, way), way);
  }
  CHECK(count(html, "<link ") == 1);  // the empty icon, so that none is asked for
  CHECK(contains(html, "<link rel=\"icon\" href=\"data:,\">"));
  CHECK(contains(html, "Permission to use, copy, modify"));  // licence of the bundled library
}

TEST_CASE("what a scenario says stays text") {
  const std::vector<std::string> hostile = {"</script><script>alert(1)</script>",
                                            "<!--<script>",
                                            "<img src=x onerror=alert(1)>",
                                            "\"@answer@\"",
                                            "\xff\xfe not UTF-8 \"quotes\" & \\u003c",
                                            "\xe2\x80\xa8 line separator"};
  const Template page = the_template();
  const std::string plain = run_page(answer_to("plain", {"one"}), environment(), page, {"", ""});
  for (const std::string& text : hostile) {
    CAPTURE(text);
    const std::string html = run_page(answer_to(text, {text}), environment(), page, {text, text});
    CHECK(count(html, "<script") == count(plain, "<script"));
    CHECK(count(html, "</script") == count(plain, "</script"));
    CHECK(count(html, "<img") == 0);
    CHECK(count(html, "<!--") == count(plain, "<!--"));
    const json in_page = json::parse(block(html, "answer"));
    if (!text.starts_with('\xff')) CHECK(in_page["title"] == text);
    CHECK(in_page["cases"].size() == 1);
  }
}

TEST_CASE("a page of many cases stays small enough to send: pictures are those of the first ones") {
  const report::RunReport one = answer_to("many", {"one"});
  report::RunReport many = one;
  for (int i = 1; i < 60; ++i) {
    many.cases.push_back(one.cases.front());
    many.cases.back().name = "case " + std::to_string(i);
  }
  const std::string html = run_page(many, environment(), the_template(), {"", ""});
  const json in_page = json::parse(block(html, "answer"));
  CHECK(in_page["cases"].size() == 60);
  CHECK(in_page["view"]["cases"].size() == 24);
  CHECK(html.size() < 1'500'000);
}

TEST_CASE("every language has the same words, with the same places to fill in") {
  const json words = json::parse(the_template().words);
  REQUIRE(words.contains("en"));
  REQUIRE(words.contains("zh"));
  std::set<std::string> english, chinese;
  add_keys(words["en"], "", english);
  add_keys(words["zh"], "", chinese);
  CHECK(english.size() > 200);
  for (const std::string& key : english) CHECK_MESSAGE(chinese.contains(key), key);
  for (const std::string& key : chinese) CHECK_MESSAGE(english.contains(key), key);
  for (const std::string& key : english) {
    const auto places = [&](const json& language) {
      const std::string text = language[json::json_pointer(key)];
      std::set<std::string> names;
      for (std::size_t at = text.find('{'); at != std::string::npos; at = text.find('{', at + 1)) {
        names.insert(text.substr(at, text.find('}', at) - at));
      }
      return names;
    };
    CHECK_MESSAGE(places(words["en"]) == places(words["zh"]), key);
  }
}

TEST_CASE("a folder without the page, or with a faulty catalogue, is reported") {
  const foretrain::testing::Folder folder;
  Diagnostics missing;
  CHECK(!load_template({folder.path().string()}, missing));
  REQUIRE(missing.has_errors());
  CHECK(contains(to_string(missing.all().front()), "report.html"));

  for (const char* part : {"page", "text"}) {
    std::filesystem::create_directories(folder.path() / "configs");
    std::filesystem::copy(data_folder().path + "/configs/" + part, folder.path() / "configs" / part);
  }
  Diagnostics none;
  CHECK(load_template({folder.path().string()}, none));
  foretrain::testing::write_file(folder / "configs/text/page-zh.yaml", "ui: [1, 2]\n");
  Diagnostics faulty;
  CHECK(!load_template({folder.path().string()}, faulty));
  REQUIRE(faulty.has_errors());
  CHECK(contains(to_string(faulty.all().front()), "page-zh.yaml:1:"));
}
