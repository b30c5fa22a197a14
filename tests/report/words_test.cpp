#include "sim/report/words.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "sim/claims/claims.h"
#include "sim/report/describe.h"
#include "sim/report/terminal.h"

using namespace foretrain;
using report::Words;

namespace {

const std::string kRoot = FORETRAIN_SOURCE_DIR;

Words chinese() {
  Diagnostics diagnostics;
  const auto words = Words::load(kRoot + "/configs/text/zh.yaml", diagnostics);
  for (const Diagnostic& d : diagnostics.all()) MESSAGE(to_string(d));
  REQUIRE(words);
  return *words;
}

std::string read(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// The patterns that the code says: the literals that open message( and words(.
std::set<std::string> patterns_in_code() {
  const std::regex call(R"re(\b(?:message|words)\(\s*((?:"(?:[^"\\]|\\.)*"\s*)+))re"), literal(R"re("((?:[^"\\]|\\.)*)")re");
  std::set<std::string> patterns;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(kRoot + "/sim")) {
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
  const auto words = Words::load(path.string(), diagnostics);
  std::filesystem::remove(path);
  std::string said;
  for (const Diagnostic& d : diagnostics.all()) said += to_string(d) + "\n";
  if (!words) throw std::runtime_error(said);
  return *words;
}

}  // namespace

TEST_CASE("everything that is said has a Chinese translation") {
  const std::set<std::string> patterns = patterns_in_code();
  REQUIRE(patterns.size() > 100);
  const std::string catalogue = read(kRoot + "/configs/text/zh.yaml");
  for (const std::string& pattern : patterns) {
    CHECK_MESSAGE(catalogue.find("\n\"" + pattern + "\": ") != std::string::npos, "no translation of: " << pattern);
  }
  CHECK(chinese()("step time") == "步时");
}

TEST_CASE("names that tables show have a Chinese translation") {
  const std::string catalogue = read(kRoot + "/configs/text/zh.yaml");
  const auto is_translated = [&](std::string name) {
    std::replace(name.begin(), name.end(), '_', ' ');
    CHECK_MESSAGE(catalogue.find("\n\"" + name + "\": ") != std::string::npos, "no translation of: " << name);
  };
  for (const auto& [name, bytes] : MemoryParts{}.named()) is_translated(name);
  for (const auto& [name, bytes] : HostMemoryParts{}.named()) is_translated(name);
  for (const ClaimVerdict verdict : kClaimVerdicts) is_translated(to_string(verdict));
  for (const auto confidence : {ErrorBar::Confidence::low, ErrorBar::Confidence::medium, ErrorBar::Confidence::high}) {
    is_translated(report::name_of(confidence));
  }
  for (const char* kind : {"models", "gpus", "nodes", "fabrics", "software", "offers"}) is_translated(kind);
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
