#include "sim/report/words.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "sim/claims/claims.h"
#include "sim/config/reader.h"
#include "sim/config/tree.h"
#include "sim/lessons/lesson.h"
#include "sim/report/describe.h"
#include "sim/report/terminal.h"
#include "sim/scenario/fields.h"
#include "tests/support/files.h"
#include "tests/support/text.h"

using namespace foretrain;
using report::Words;

namespace {

const std::string kSources = FORETRAIN_SOURCE_DIR;

Words chinese() {
  Diagnostics diagnostics;
  const std::string texts = kSources + "/configs/text/";
  const auto words = Words::load(
      {texts + "zh.yaml", texts + "errors-zh.yaml", texts + "help-zh.yaml", texts + "lessons-zh.yaml"}, diagnostics);
  for (const Diagnostic& d : diagnostics.all()) MESSAGE(to_string(d));
  REQUIRE(words);
  return *words;
}

std::string read(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// The catalogues of what the code says.
std::string catalogue_of_code() {
  std::string all;
  for (const char* part : {"zh.yaml", "errors-zh.yaml", "help-zh.yaml"})
    all += read(kSources + "/configs/text/" + part);
  return all;
}

bool is_translated(const std::string& pattern) {
  static const std::string kCatalogue = catalogue_of_code();
  return kCatalogue.find("\n\"" + pattern + "\": ") != std::string::npos;
}

// Patterns that the code makes of names: kinds of things in catalogues, nouns of units, fields with a flag.
std::set<std::string> patterns_of_names() {
  std::set<std::string> patterns;
  for (const std::string kind :
       {"model", "GPU", "node", "fabric", "software profile", "offer file", "file of achieved rates"}) {
    patterns.insert({kind, "{} " + kind, "{} " + kind + (kind.ends_with('s') ? "" : "s")});
  }
  for (const auto unit : {config::Unit::count, config::Unit::bytes, config::Unit::gigabytes, config::Unit::bytes_rate,
                          config::Unit::network_rate, config::Unit::teraflops, config::Unit::seconds,
                          config::Unit::microseconds, config::Unit::milliseconds, config::Unit::watts}) {
    Message why_not;
    CHECK_FALSE(config::parse_number("x", unit, why_not));
    patterns.insert(why_not.arguments().at(1).pattern());
  }
  for (const Field& field : scenario_fields()) {
    if (!field.flag.empty()) patterns.emplace(field.meaning);
  }
  return patterns;
}

// The patterns that the code says: the literals that open message( and words(, or words_(.
std::set<std::string> patterns_in_code() {
  const std::regex call(R"re(\b(?:message|words_?)\(\s*((?:"(?:[^"\\]|\\.)*"\s*)+))re"),
      literal(R"re("((?:[^"\\]|\\.)*)")re");
  std::set<std::string> patterns;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(kSources + "/sim")) {
    if (entry.path().extension() != ".cpp") continue;
    const std::string text = read(entry.path());
    for (std::sregex_iterator at(text.begin(), text.end(), call), end; at != end; ++at) {
      const std::string literals = (*at)[1];
      std::string pattern;
      for (std::sregex_iterator part(literals.begin(), literals.end(), literal), last; part != last; ++part) {
        pattern += (*part)[1];
      }
      patterns.insert(pattern);
    }
  }
  return patterns;
}

Words of(const std::string& yaml) {
  const auto path = std::filesystem::temp_directory_path() / "foretrain-words.yaml";
  std::ofstream(path) << yaml;
  Diagnostics diagnostics;
  const auto words = Words::load({path.string()}, diagnostics);
  std::filesystem::remove(path);
  const std::string said = foretrain::testing::shown(diagnostics);
  if (!words) throw std::runtime_error(said);
  return *words;
}

}  // namespace

TEST_CASE("everything that is said has a Chinese translation") {
  const std::set<std::string> patterns = patterns_in_code();
  REQUIRE(patterns.size() > 100);
  for (const std::string& pattern : patterns) CHECK_MESSAGE(is_translated(pattern), "no translation of: " << pattern);
  for (const std::string& pattern : patterns_of_names()) {
    CHECK_MESSAGE(is_translated(pattern), "no translation of: " << pattern);
  }
  CHECK(chinese()("step time") == "步时");
}

TEST_CASE("no translation of an error or of help is left over") {
  std::set<std::string> said = patterns_in_code();
  said.merge(patterns_of_names());
  for (const int number :
       {EACCES, EFBIG, EIO, EISDIR, ENAMETOOLONG, ENFILE, EMFILE, ENOENT, ENOSPC, ENOTDIR, EPIPE, EROFS}) {
    said.insert(system_error(number).pattern());
  }
  const std::regex entry(R"re(\n"((?:[^"\\]|\\.)+)": )re");
  for (const char* part : {"errors-zh.yaml", "help-zh.yaml"}) {
    const std::string catalogue = read(kSources + "/configs/text/" + part);
    for (std::sregex_iterator at(catalogue.begin(), catalogue.end(), entry), end; at != end; ++at) {
      CHECK_MESSAGE(said.contains((*at)[1]), "nobody says: " << std::string((*at)[1]));
    }
  }
}

TEST_CASE("a diagnostic is said in the language of the words, at the same place") {
  Diagnostics diagnostics;
  const auto file = std::make_shared<const std::string>("plan.yaml");
  diagnostics.error({file, 14, 9}, message("tp={} does not divide heads={}; legal: {}", 3, 32, "1, 2"));
  diagnostics.unsupported({file, 0, 0}, message("plan.zeropp with plan.pp above 1 (legal: pp=1)"));
  diagnostics.error({}, message("unknown {} {}{}", quoted_words("model"), "'7c'", did_you_mean("7c", {"7b"})));
  const auto in_chinese = [&](std::size_t i) { return chinese()(as_message(diagnostics.all()[i])); };
  CHECK(in_chinese(0) == "plan.yaml:14:9: 错误：tp=3 不能整除 heads=32；可用：1, 2");
  CHECK(in_chinese(1) == "plan.yaml: 错误：尚未模拟 plan.pp 大于 1 时的 plan.zeropp（可用：pp=1）；请去掉");
  CHECK(in_chinese(2) == "错误：没有模型：'7c'；是否想写 '7b'？");
}

TEST_CASE("names that tables show have a Chinese translation") {
  const auto check = [&](std::string name) {
    std::replace(name.begin(), name.end(), '_', ' ');
    CHECK_MESSAGE(is_translated(name), "no translation of: " << name);
  };
  for (const auto& [name, bytes] : MemoryParts{}.named()) check(name);
  for (const auto& [name, bytes] : HostMemoryParts{}.named()) check(name);
  for (const ClaimVerdict verdict : kClaimVerdicts) check(to_string(verdict));
  for (const auto confidence : {ErrorBar::Confidence::low, ErrorBar::Confidence::medium, ErrorBar::Confidence::high}) {
    check(report::name_of(confidence));
  }
  for (const char* kind : {"models", "gpus", "nodes", "fabrics", "software", "offers"}) check(kind);
}

TEST_CASE("everything that lessons say has a Chinese translation, and no translation is left over") {
  const DataFolder data{kSources};
  std::set<std::string> said;
  for (const std::string& name : lesson_names(data)) {
    Diagnostics diagnostics;
    const auto lesson = load_lesson(lesson_path(data, name), data, diagnostics);
    REQUIRE(lesson);
    said.insert({lesson->title, lesson->text, lesson->measured_text});
    for (const LessonStep& step : lesson->steps) {
      said.insert({step.title, step.text});
      said.insert(step.rows.begin(), step.rows.end());
      said.insert(step.columns.begin(), step.columns.end());
      for (const LessonFigure& figure : step.figures) said.insert(figure.name);
    }
    if (!lesson->what_if) continue;
    said.insert(lesson->what_if->text);
    for (const WhatIf::Slider& slider : lesson->what_if->sliders) {
      said.insert(slider.name);
      said.insert(slider.positions.begin(), slider.positions.end());
    }
  }
  const std::string all = read(kSources + "/configs/text/zh.yaml"),
                    lessons = read(kSources + "/configs/text/lessons-zh.yaml");
  for (const std::string& text : said) {
    CHECK_MESSAGE((all + lessons).find("\n\"" + text + "\": ") != std::string::npos, "no translation of: " << text);
  }
  const std::regex entry(R"re(\n"([^"]+)": )re");
  for (std::sregex_iterator at(lessons.begin(), lessons.end(), entry), end; at != end; ++at) {
    CHECK_MESSAGE(said.contains((*at)[1]), "no lesson says: " << std::string((*at)[1]));
  }
}

TEST_CASE("everything that claims say has a Chinese translation, and no translation is left over") {
  std::set<std::string> said;
  for (const auto& entry : std::filesystem::directory_iterator(kSources + "/scenarios/claims")) {
    if (entry.path().extension() != ".yaml") continue;
    Diagnostics diagnostics;
    const auto file = load_claims(entry.path(), {kSources}, diagnostics);
    REQUIRE(file);
    for (const Claim& claim : file->claims) {
      said.insert({claim.says, claim.out_of_scope});
      for (const Check& check : claim.checks) said.insert(check.when);
    }
  }
  said.erase("");
  Diagnostics diagnostics;
  const auto catalogue = config::parse_yaml_file(kSources + "/configs/text/claims-zh.yaml", diagnostics);
  REQUIRE(catalogue);
  std::set<std::string> translated;
  for (const auto& entry : catalogue->map()) translated.insert(entry.key);
  CHECK(said.size() > 200);
  for (const std::string& text : said) CHECK_MESSAGE(translated.contains(text), "no translation of: " << text);
  for (const std::string& text : translated) CHECK_MESSAGE(said.contains(text), "no claim says: " << text);
}

TEST_CASE("an earlier catalogue goes before a later one; texts of data files have no places") {
  const foretrain::testing::Folder folder;
  foretrain::testing::write_file(folder / "a.yaml", "\"one\": \"一\"\n");
  foretrain::testing::write_file(folder / "b.yaml", "\"one\": \"壹\"\n\"two\": \"二\"\n");
  Diagnostics diagnostics;
  const auto words = Words::load({folder / "a.yaml", folder / "b.yaml"}, diagnostics);
  REQUIRE(words);
  CHECK((*words)("one") == "一");
  CHECK(words->text("two") == "二");
  CHECK(words->text("{0} {") == "{0} {");
}

TEST_CASE("a translation may order its places anew, and messages nest") {
  const Words words = of("\"{} of {}\": \"{1} 中的 {0}\"\n\"three\": \"三\"\n");
  CHECK(words("{} of {}", message("three"), 7) == "7 中的 三");
  CHECK(words("{} beside {}", message("three"), "x") == "三 beside x");
  CHECK(words(Message(std::string("three"))) == "three");  // a name stays as it is
  CHECK(Words()("{} of {}", message("three"), 7) == "three of 7");
}

TEST_CASE("text that looks like a pattern is only text") {
  CHECK(Words()("{} fits", "a {} {9} {{") == "a {} {9} {{ fits");
  CHECK(message("{} fits", std::string("{}")).english() == "{} fits");
}

TEST_CASE("a translation with other places than its pattern is refused") {
  for (const char* wrong : {"\"{} of {}\": \"{}\"", "\"{} of {}\": \"{0} {0}\"", "\"{} of {}\": \"{0} {2}\"",
                            "\"{}\": \"{:d}\"", "\"{}\": \"{\"", "\"{}\": [a]", "[a]"}) {
    CAPTURE(wrong);
    CHECK_THROWS_AS(of(wrong), std::runtime_error);
  }
}

TEST_CASE("Chinese text is broken between characters, not before a full stop") {
  using report::wrapped;
  CHECK(wrapped("一二三四五", 6, 0) == "一二三\n四五");
  CHECK(wrapped("一二三。四", 6, 0) == "一二\n三。四");
  CHECK(wrapped("放到 cpu 上", 40, 0) == "放到 cpu 上");
}
