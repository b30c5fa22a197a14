// Inputs made to break the parser: each must end soon, in an error or in a tree.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <random>

#include "sim/config/tree.h"
#include "support.h"

namespace foretrain::config {
namespace {

using testing::contains;
using testing::errors_of;
using testing::parsed;

std::string repeated(std::string_view part, int times) {
  std::string text;
  for (int i = 0; i < times; ++i) text += part;
  return text;
}

const char* const kSample = R"(# A cluster
name: "sixty-four H100s"
gpu: &gpu {model: h100-sxm, memory: 80GB, tdp: 700W}
spare: *gpu
network:
  - {name: nvlink, bandwidth: 450GB/s, latency: 2.5us}
  - name: 'infini''band'
    bandwidth: 400Gb/s
    rails: [0, 1, 2, 3,
            4, 5, 6, 7]
notes: |
  Two lines: with a colon,
  and a [bracket.
folded: >-
  one
  two
? explicit
: "esc \u00e9 \x41 \n"
empty:
null_too: ~
)";

TEST_CASE("nesting: 64 levels are read, 65 are not") {
  CHECK(parsed(repeated("[", 64) + repeated("]", 64)).is_sequence());
  CHECK(contains(errors_of(repeated("[", 65) + repeated("]", 65)), "1:65: error: nested deeper than 64 levels"));
  CHECK(contains(errors_of(repeated("{a: ", 65) + "1" + repeated("}", 65)), "nested deeper than 64 levels"));
  CHECK(contains(errors_of(repeated("- ", 65) + "1"), "nested deeper than 64 levels"));
}

TEST_CASE("long repeats of anything end soon") {
  for (const char* part :
       {"[",  "{",   "[{",    "{a: ", "- ",  "? ", "[[]", "{[",   "[\n", "- [", "? [", "!",  "&a ", "'", "\"",
        ": ", "-\n", "- -\n", "*a ",  "|\n", "%",  "@",   "a:\n", "[,",  "{,",  "{:",  "[:", "[?",  "{?"}) {
    CAPTURE(std::string(part));
    Diagnostics diagnostics;
    const bool ok = parse_yaml(repeated(part, 300'000), "t.yaml", diagnostics).has_value();
    CHECK(ok != diagnostics.has_errors());
  }
  const std::string brackets = repeated("[", 500'000) + repeated("]", 500'000);
  CHECK(contains(errors_of(brackets), "1:65: error: nested deeper than 64 levels"));
  CHECK(contains(errors_of(fmt::format("a: {}", repeated("[", 900'000))), "1:5: error: a list or map stands where"));
  std::string ever_deeper;
  for (int depth = 0; depth < 3000; ++depth) ever_deeper += fmt::format("{:{}}a:\n", "", depth);
  CHECK(contains(errors_of(ever_deeper), "t.yaml:65:65: error: nested deeper than 64 levels"));
  CHECK(contains(errors_of(repeated("{a: ", 100'000)), "error: "));
}

TEST_CASE("aliases are counted where they are repeated") {
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    bomb += fmt::format("a{0}: &a{0} [", i);
    for (int k = 0; k < 10; ++k) bomb += fmt::format("{}*a{}", k == 0 ? "" : ", ", i - 1);
    bomb += "]\n";
  }
  CHECK(contains(errors_of(bomb), "more than 2000000 values"));

  const std::string long_text = fmt::format("a: &a {}\nb: [{}]\n", repeated("x", 1 << 19), repeated("*a, ", 1000));
  CHECK(contains(errors_of(long_text), "more than 64 MiB of text"));

  std::string deep = "d0: &d0 x\n";
  for (int i = 1; i < 4; ++i) {
    deep += fmt::format("d{0}: &d{0} {1}*d{2}{3}\n", i, repeated("[", 30), i - 1, repeated("]", 30));
  }
  CHECK(contains(errors_of(deep), "nested deeper than 64 levels"));
}

TEST_CASE("what is not text is an error at its byte") {
  CHECK(contains(errors_of(std::string("a: 1\nb: \0", 9)), "t.yaml:2:4: error: control character 0x00"));
  CHECK(contains(errors_of("a: \x04\n"), "1:4: error: control character 0x04"));
  CHECK(contains(errors_of("caf\xC3\xA9: \xFF\n"), "1:8: error: byte 0xff is not UTF-8"));
  CHECK(contains(errors_of("a: \xED\xA0\x80\n"), "byte 0xed is not UTF-8"));    // surrogate
  CHECK(contains(errors_of("a: \xC0\xAF\n"), "byte 0xc0 is not UTF-8"));        // overlong
  CHECK(contains(errors_of("a: \xF4\x90\x80\x80"), "byte 0xf4 is not UTF-8"));  // beyond U+10FFFF
  CHECK(contains(errors_of("a: \xE2\x82"), "byte 0xe2 is not UTF-8"));          // cut short
  errors_of(
      std::string("\xFF\xFE"
                  "a\0:\0",
                  6));  // UTF-16
  CHECK(parsed("a: \xF0\x9F\x98\x80\n").find("a")->scalar() == "\xF0\x9F\x98\x80");
}

TEST_CASE("messages neither carry control characters nor flood the terminal") {
  const std::string shown = errors_of(fmt::format("\"\\e[31m{0}\": 1\n\"\\e[31m{0}\": 2\n", repeated("k", 5000)));
  CHECK_FALSE(contains(shown, "\x1b"));
  CHECK(shown.size() < 200);
}

TEST_CASE("sizes are bounded") {
  CHECK(contains(errors_of(std::string((64 << 20) + 1, ' ')), "larger than 64 MiB"));
  CHECK(contains(errors_of(fmt::format("[{}1]", repeated("1,", 600'000))), "longer than 1 MiB"));
  CHECK(contains(errors_of(fmt::format("a: {}", repeated("x", 3 << 20))), "longer than 1 MiB"));
  CHECK(contains(errors_of(repeated("- 1\n", 2'000'001)), "more than 2000000 values"));
}

TEST_CASE("a map of many keys is read in time near its size") {
  std::string text;
  for (int i = 0; i < 100'000; ++i) text += fmt::format("k{}: {}\n", i, i);
  const Node many = parsed(text);
  CHECK(many.map().size() == 100'000);
  CHECK(merge(many, many).map().size() == 100'000);
}

TEST_CASE("a 40 KB file is read in milliseconds") {
  std::string text = "curve:\n";
  while (text.size() < 40'000) text += fmt::format("  - {{size: {}, time: 12.5us}}\n", text.size());
  auto best = std::chrono::steady_clock::duration::max();
  for (int i = 0; i < 5; ++i) {
    const auto start = std::chrono::steady_clock::now();
    parsed(text);
    best = std::min(best, std::chrono::steady_clock::now() - start);
  }
  const double ms = std::chrono::duration<double, std::milli>(best).count();
  MESSAGE("40 KB in " << ms << " ms");
  CHECK(ms < 200.0);  // some milliseconds in a release build; the bound leaves room for sanitizers
}

TEST_CASE("every cut of a sample parses or fails with a position") {
  const std::string sample = kSample;
  REQUIRE(parsed(sample).is_map());
  for (std::size_t length = 0; length <= sample.size(); ++length) {
    Diagnostics diagnostics;
    const bool ok = parse_yaml(std::string_view(sample).substr(0, length), "t.yaml", diagnostics).has_value();
    CHECK(ok != diagnostics.has_errors());
  }
}

TEST_CASE("random mutations of a sample neither crash nor hang") {
  const std::string sample = kSample;
  const std::string_view spice = "[]{}:,-?&*!|>'\"%@`#~ \n\t\r\\<0a\x01\xC3\xFF";
  std::mt19937 random(20240607);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random()) % n; };
  int read = 0;
  int refused = 0;
  for (int round = 0; round < 6000; ++round) {
    std::string text = sample;
    for (std::size_t edits = 1 + below(6); edits > 0 && !text.empty(); --edits) {
      const std::size_t at = below(text.size());
      switch (below(6)) {
        case 0:
          text[at] = static_cast<char>(below(256));
          break;
        case 1:
          text.insert(at, 1, spice[below(spice.size())]);
          break;
        case 2:
          text[at] = spice[below(spice.size())];
          break;
        case 3:
          text.erase(at, 1 + below(20));
          break;
        case 4:
          text.insert(at, text.substr(below(text.size()), 1 + below(40)));
          break;
        default:
          if (below(4) == 0) text.resize(at);
      }
    }
    Diagnostics diagnostics;
    const bool ok = parse_yaml(text, "t.yaml", diagnostics).has_value();
    if (ok == diagnostics.has_errors()) FAIL_CHECK("round " << round << ":\n" << text);
    ++(ok ? read : refused);
  }
  CHECK(read > 100);
  CHECK(refused > 1000);
}

TEST_CASE("short strings of YAML's own characters neither crash nor hang") {
  const std::string_view alphabet = "[]{}:,-?&*!|>'\"%#~ \na";
  std::mt19937 random(7);
  for (int round = 0; round < 40000; ++round) {
    std::string text;
    for (std::size_t length = 1 + random() % 12; length > 0; --length) text += alphabet[random() % alphabet.size()];
    Diagnostics diagnostics;
    const bool ok = parse_yaml(text, "t.yaml", diagnostics).has_value();
    if (ok == diagnostics.has_errors()) FAIL_CHECK("round " << round << ":\n" << text);
  }
}

}  // namespace
}  // namespace foretrain::config
