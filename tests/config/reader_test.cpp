#include "sim/config/reader.h"

#include <fmt/format.h>

#include "support.h"

namespace foretrain::config {
namespace {

using testing::contains;
using testing::parsed;
using testing::shown;

TEST_CASE("every kind of value is read") {
  const Node root = parsed(
      "name: llama\nquoted: '8'\nflag: yes\noff: Off\ntp: 8\nbig: 1e9\nkilo: 16k\nrate: 2.5\n"
      "list: [a, 'b']\nlone: a\nnumbers: [1, 2.5, 3k]\nkind: 1f1b\nnothing: ~\n");
  Diagnostics diagnostics;
  MapReader reader(root, diagnostics, "plan");
  CHECK(reader.text("name") == "llama");
  CHECK(reader.text("quoted") == "8");
  CHECK(reader.text("tp") == "8");
  CHECK(reader.boolean("flag") == true);
  CHECK(reader.boolean("off") == false);
  CHECK(reader.integer("tp", {1, 65536}) == 8);
  CHECK(reader.integer("big") == 1'000'000'000);
  CHECK(reader.integer("kilo") == 16'000);
  CHECK(reader.number("rate") == 2.5);
  CHECK(reader.text_list("list") == std::vector<std::string>{"a", "b"});
  CHECK(reader.text_list("lone") == std::vector<std::string>{"a"});
  CHECK(reader.number_list("numbers") == std::vector<double>{1, 2.5, 3000});
  CHECK(reader.choice("kind", {"gpipe", "1f1b"}) == 1U);
  CHECK(reader.has("nothing"));
  CHECK_FALSE(reader.text("nothing"));
  CHECK_FALSE(reader.integer("nothing"));
  CHECK_FALSE(reader.boolean("nothing"));
  CHECK_FALSE(reader.number_list("absent"));
  CHECK_FALSE(reader.has("absent"));
  reader.finish();
  CHECK(shown(diagnostics) == "");
}

TEST_CASE("all that is wrong is reported at once, each where it is") {
  const Node root = parsed(
      "tp: four\n"
      "zero: a100\n"
      "pp: 0\n"
      "micro_bach: 2\n"
      "cp: 1.5\n"
      "ep: '4'\n"
      "schedule: 1f1\n"
      "sizes: [1, x,\n"
      "  -3]\n"
      "map: {a: 1}\n"
      "list: [1]\n"
      "memory: 2TB\n"
      "hours: inf\n"
      "far: 1_000\n"
      "qqqqqqqqqq: 1\n");
  Diagnostics diagnostics;
  MapReader plan(root, diagnostics, "plan");
  CHECK_FALSE(plan.integer("tp", {1, 64}));
  CHECK_FALSE(plan.boolean("zero"));
  CHECK_FALSE(plan.integer("pp", {1}));
  plan.integer("micro_batch");
  CHECK_FALSE(plan.integer("cp"));
  CHECK_FALSE(plan.integer("ep"));
  CHECK_FALSE(plan.choice("schedule", {"gpipe", "1f1b"}));
  CHECK_FALSE(plan.number_list("sizes", Unit::count, {0}));
  CHECK_FALSE(plan.text("map"));
  CHECK_FALSE(plan.integer("list"));
  CHECK_FALSE(plan.number("memory", Unit::bytes, {0, 1e9}));
  CHECK_FALSE(plan.number("hours", Unit::seconds));
  CHECK_FALSE(plan.number("far"));
  plan.finish();
  CHECK(shown(diagnostics) ==
        "t.yaml:1:5: error: plan.tp: 'four' is not a whole number\n"
        "t.yaml:2:7: error: plan.zero: 'a100' is not a boolean; write true or false\n"
        "t.yaml:3:5: error: plan.pp=0 is out of range; must be at least 1\n"
        "t.yaml:5:5: error: plan.cp: '1.5' is not a whole number\n"
        "t.yaml:6:5: error: plan.ep: '4' in quotes is text, not a whole number; write it without quotes\n"
        "t.yaml:7:11: error: plan.schedule: '1f1' is not one of gpipe, 1f1b; did you mean '1f1b'?\n"
        "t.yaml:8:12: error: plan.sizes: 'x' is not a number\n"
        "t.yaml:9:3: error: plan.sizes=-3 is out of range; must be at least 0\n"
        "t.yaml:10:6: error: plan.map: a map stands where text is expected\n"
        "t.yaml:11:7: error: plan.list: a list stands where a whole number is expected\n"
        "t.yaml:12:9: error: plan.memory=2TB is out of range; must be between 0 and 1000000000 bytes\n"
        "t.yaml:13:8: error: plan.hours: 'inf' is not a duration\n"
        "t.yaml:14:6: error: plan.far: '1_000' is not a number; write the digits without '_'\n"
        "t.yaml:4:1: error: unknown key 'micro_bach' in plan; did you mean 'micro_batch'?\n"
        "t.yaml:15:1: error: unknown key 'qqqqqqqqqq' in plan; known keys: tp, zero, pp, micro_batch, cp, ep, "
        "schedule, sizes, map, list, memory, hours, far");
}

TEST_CASE("required values: absence is an error at the map, and the placeholder is in range") {
  const Node root = parsed("a: ~\nwrong: x\n");
  Diagnostics diagnostics;
  MapReader reader(root, diagnostics, "gpu");
  CHECK(reader.required_text("name") == "");
  CHECK(reader.required_integer("a", {4, 8}) == 4);
  CHECK(reader.required_integer("b", {-8, -4}) == -4);
  CHECK(reader.required_number("memory", Unit::bytes, {0, 1e12}) == 1.0);
  CHECK(reader.required_number("wrong") == 1.0);
  CHECK(shown(diagnostics) ==
        "t.yaml:1:1: error: gpu.name is missing; it must be given\n"
        "t.yaml:1:4: error: gpu.a is missing; it must be given\n"
        "t.yaml:1:1: error: gpu.b is missing; it must be given\n"
        "t.yaml:1:1: error: gpu.memory is missing; it must be given\n"
        "t.yaml:2:8: error: gpu.wrong: 'x' is not a number");
}

TEST_CASE("a reader over what is not a map") {
  Diagnostics diagnostics;
  const Node list = parsed("[1]");
  MapReader of_list(list, diagnostics, "plan");
  CHECK_FALSE(of_list.integer("tp"));
  of_list.finish();
  const Node null = parsed("");
  MapReader of_null(null, diagnostics, "plan");
  CHECK_FALSE(of_null.integer("tp"));
  of_null.finish();
  CHECK(shown(diagnostics) == "t.yaml:1:1: error: plan must be a map of keys and values, not a list");
}

TEST_CASE("positions of keys and of what is absent") {
  const Node root = parsed("\na: 1\n");
  Diagnostics diagnostics;
  MapReader reader(root, diagnostics, "");
  CHECK(reader.position().line == 2);
  CHECK(reader.position_of("a").column == 4);
  CHECK(reader.position_of("b").column == 1);
  reader.error("a", message("is one"));
  reader.finish();
  CHECK(shown(diagnostics) == "t.yaml:2:4: error: is one\nt.yaml:2:1: error: unknown key 'a'");
}

TEST_CASE("thousands of unknown keys are summed up") {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += fmt::format("x{}: 1\n", i);
  const Node root = parsed(text);
  Diagnostics diagnostics;
  MapReader reader(root, diagnostics, "plan");
  reader.finish();
  CHECK(diagnostics.error_count() == 21);
  CHECK(diagnostics.all().back().message.english() == "4980 more unknown keys in plan up to here");
}

}  // namespace
}  // namespace foretrain::config
