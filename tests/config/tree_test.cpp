#include "sim/config/tree.h"

#include "support.h"

namespace foretrain::config {
namespace {

using testing::contains;
using testing::errors_of;
using testing::parsed;

void check_at(const SourcePosition& position, int line, int column) {
  REQUIRE(position.file);
  CHECK(*position.file == "t.yaml");
  CHECK(position.line == line);
  CHECK(position.column == column);
}

TEST_CASE("values are where they were written") {
  const Node root = parsed(
      "model: llama\n"
      "plan:\n"
      "  tp: 4   # tensor parallel\n"
      "  sizes: [1, 20,\n"
      "    300]\n"
      "  list:\n"
      "    - a\n"
      "    - 'b'\n");
  check_at(root.position, 1, 1);
  check_at(root.find("model")->position, 1, 8);
  const Node* plan = root.find("plan");
  REQUIRE(plan != nullptr);
  check_at(root.map()[1].key_position, 2, 1);
  check_at(plan->position, 3, 3);
  check_at(plan->find("tp")->position, 3, 7);
  check_at(plan->find("sizes")->sequence()[1].position, 4, 14);
  check_at(plan->find("sizes")->sequence()[2].position, 5, 5);
  check_at(plan->find("list")->sequence()[1].position, 8, 7);
  CHECK(plan->find("absent") == nullptr);
  CHECK(plan->find("tp")->find("x") == nullptr);
}

TEST_CASE("windows line ends, a byte order mark and a document marker change nothing") {
  const Node root = parsed("\xEF\xBB\xBF---\r\na: 1\r\nb: two\r\n");
  CHECK(root.find("a")->scalar() == "1");
  CHECK(root.find("b")->scalar() == "two");
  CHECK(root.find("b")->position.line == 3);
  CHECK(parsed("a: 1\n...\n").find("a")->scalar() == "1");
  CHECK(parsed("a: 1\n...\n# the end").find("a")->scalar() == "1");
  CHECK(parsed("a: |\n  text").find("a")->scalar() == "text\n");
}

TEST_CASE("scalars: plain, quoted, block and null") {
  const Node root = parsed(
      "plain: some text\n"
      "single: 'it''s'\n"
      "double: \"a\\tb\"\n"
      "block: |\n"
      "  one\n"
      "  two\n"
      "empty:\n"
      "tilde: ~\n"
      "word: null\n"
      "quoted_null: 'null'\n"
      "quoted_empty: ''\n");
  CHECK(root.find("plain")->scalar() == "some text");
  CHECK_FALSE(root.find("plain")->quoted);
  CHECK(root.find("single")->scalar() == "it's");
  CHECK(root.find("single")->quoted);
  CHECK(root.find("double")->scalar() == "a\tb");
  CHECK(root.find("block")->scalar() == "one\ntwo\n");
  CHECK(root.find("block")->quoted);
  CHECK(root.find("empty")->is_null());
  CHECK(root.find("empty")->position.line == 7);  // not where the next key begins
  CHECK(root.find("tilde")->is_null());
  check_at(root.find("tilde")->position, 8, 8);
  CHECK(root.find("word")->is_null());
  CHECK(root.find("quoted_null")->scalar() == "null");
  CHECK(root.find("quoted_empty")->scalar().empty());
}

TEST_CASE("a document of nothing is null") {
  for (const char* text : {"", "\n\n", "# only a comment\n", "---\n", "---\n...\n", "---\n...\n# the end\n", "..."}) {
    CAPTURE(text);
    const Node root = parsed(text);
    CHECK(root.is_null());
    CHECK(root.position.file);
  }
}

TEST_CASE("an alias repeats the anchored value, with the position of the original") {
  const Node root = parsed("base: &b {x: 1, y: [2]}\nagain: *b\n");
  const Node* again = root.find("again");
  REQUIRE(again->is_map());
  CHECK(again->find("y")->sequence()[0].scalar() == "2");
  check_at(again->find("x")->position, 1, 14);
}

TEST_CASE("duplicate keys are all reported, at the repeat") {
  CHECK(errors_of("a: 1\nb:\n  c: 1\n  'c': 2\na: 3\n") ==
        "t.yaml:4:3: error: key 'c' appears a second time; it was first given on line 3\n"
        "t.yaml:5:1: error: key 'a' appears a second time; it was first given on line 1");
}

TEST_CASE("what is not supported is said") {
  CHECK(errors_of("a: &x {b: 1}\nc:\n  <<: *x\n") ==
        "t.yaml:3:3: error: merge keys ('<<') are not supported; write the keys out");
  CHECK(contains(errors_of("a: !!int '3'\n"), "t.yaml:1:4: error: tag 'tag:yaml.org,2002:int' is not supported"));
  CHECK(contains(errors_of("? [a, b]\n: 1\n"), "1:3: error: a list or map stands where a key is expected"));
  CHECK(contains(errors_of("~: 1\n"), "1:1: error: a key is missing or null"));
  CHECK(contains(errors_of("a: &k x\n*k : 1\n"), "2:1: error: an alias stands where a key is expected"));
  CHECK(contains(errors_of("a: 1\n---\nb: 2\n"), "error: a second YAML document starts here"));
  CHECK(contains(errors_of("a: &x [1, *x]\n"), "1:11: error: an alias stands inside the value it repeats"));
}

TEST_CASE("syntax errors have a position and say what to do") {
  CHECK(contains(errors_of("a: 1\n\tb: 2\n"), "t.yaml:2:1: error: "));
  CHECK(errors_of("a: [1, 2\nb: 3\n").starts_with("t.yaml:"));
  CHECK(contains(errors_of("a: [1, 2"), "add ']'"));
  CHECK(contains(errors_of("a: b: c\n"), "t.yaml:1:5: error: ':' is not expected here"));
  for (const char* text : {"a: 'open", "a: 'open\n", "a: \"open\n\n", "a: 1\n'open: 2\n", "a: &x 'open\n...\n", "'"}) {
    CAPTURE(std::string(text));
    CHECK(contains(errors_of(text), "a quote is not closed"));
  }
  CHECK(contains(errors_of("a: [[1, 2], [3"), "brackets must be closed"));
  CHECK(errors_of("a: 1\nb: [1,").starts_with("t.yaml:2:7: error: "));  // not past the end
  CHECK(contains(errors_of("a: *nobody\n"), "t.yaml:1:4: error: "));
}

TEST_CASE("merge lays maps over maps, deep, and replaces everything else") {
  const Node base = parsed("a: 1\nplan:\n  tp: 2\n  pp: 4\n  net: {x: 1}\nlist: [1, 2, 3]\nkept: yes\n");
  Diagnostics diagnostics;
  const std::optional<Node> over =
      parse_yaml("\n\nlist: [9]\nplan:\n  tp: 8\n  net: 7\nnew: 5\na: ~\n", "over.yaml", diagnostics);
  REQUIRE(over);
  const Node merged = merge(base, *over);

  std::vector<std::string> keys;
  for (const Node::Entry& entry : merged.map()) keys.push_back(entry.key);
  CHECK(keys == std::vector<std::string>{"a", "plan", "list", "kept", "new"});
  CHECK(merged.find("a")->is_null());
  CHECK(merged.find("list")->sequence().size() == 1);
  const Node* plan = merged.find("plan");
  CHECK(plan->find("tp")->scalar() == "8");
  CHECK(*plan->find("tp")->position.file == "over.yaml");
  CHECK(plan->find("tp")->position.line == 5);
  CHECK(plan->find("pp")->scalar() == "4");
  check_at(plan->find("pp")->position, 4, 7);
  CHECK(plan->find("net")->scalar() == "7");
  CHECK(merged.map()[2].key_position.line == 3);

  CHECK(merge(base, parsed("text")).scalar() == "text");
  CHECK(merge(parsed("text"), base).is_map());
}

TEST_CASE("a file that cannot be read is an error with its name") {
  Diagnostics diagnostics;
  CHECK_FALSE(parse_yaml_file("/no/such/file.yaml", diagnostics));
  CHECK(testing::shown(diagnostics) == "/no/such/file.yaml: error: cannot be read: No such file or directory");
  Diagnostics of_folder;
  CHECK_FALSE(parse_yaml_file("/tmp", of_folder));
  CHECK(testing::shown(of_folder) == "/tmp: error: cannot be read: Is a directory");
}

}  // namespace
}  // namespace foretrain::config
