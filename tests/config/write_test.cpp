#include "sim/config/write.h"

#include <random>

#include "tests/config/support.h"

namespace foretrain::config {
namespace {

using testing::contains;
using testing::parsed;

// Values alone, whatever their positions.
std::string values_of(const Node& node) {
  if (node.is_null()) return "~";
  if (node.is_scalar()) return (node.quoted ? "\"" : "'") + std::to_string(node.scalar().size()) + ":" + node.scalar();
  std::string text = node.is_map() ? "{" : "[";
  if (node.is_sequence()) {
    for (const Node& item : node.sequence()) text += values_of(item) + ",";
  } else {
    for (const Node::Entry& entry : node.map()) text += entry.key + "=" + values_of(entry.value) + ",";
  }
  return text + (node.is_map() ? "}" : "]");
}

Node random_node(std::mt19937& random, int depth) {
  const std::vector<std::pair<std::string, bool>> scalars = {{"8", false},
                                                             {"1e9", false},
                                                             {"a100-40g", false},
                                                             {"-3", false},
                                                             {"8 x A100", true},
                                                             {"it's", true},
                                                             {"# no comment", true},
                                                             {"a: b", true},
                                                             {"", true},
                                                             {"null", true},
                                                             {"tab\tand\nline \\ \"", true},
                                                             {"{", true},
                                                             {"- item", true},
                                                             {"\xC3\xA9t\xC3\xA9", true},
                                                             {"3g.20gb", false}};
  const std::size_t kind = random() % 8;
  if (depth == 0 || kind < 4) {
    if (kind == 0) return Node{};
    const auto& [text, quoted] = scalars[random() % scalars.size()];
    return Node{{}, text, quoted};
  }
  const std::size_t size = random() % 4;
  if (kind < 6) {
    Node::Sequence items;
    for (std::size_t i = 0; i < size; ++i) items.push_back(random_node(random, depth - 1));
    return Node{{}, std::move(items), false};
  }
  Node map = empty_map();
  const std::vector<std::string> keys = {"plan", "odd: key", "seq_len", "x#y"};
  for (std::size_t i = 0; i < size; ++i) set_entry(map, keys[i], random_node(random, depth - 1));
  return map;
}

TEST_CASE("what is written reads as the same values") {
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    const Node node = random_node(random, 4);
    const CommentOf comment = [](const std::string& path) { return "about " + path; };
    for (const std::string& text : {write_yaml(node), write_yaml(node, comment)}) {
      INFO(text);
      REQUIRE(values_of(parsed(text)) == values_of(node));
    }
  }
}

TEST_CASE("short maps stand on a line, comments beside their keys") {
  const Node node = parsed("title: x\nbase:\n  train:\n    seq_len: 4096\n    precision: bf16\ncases:\n- name: a\n");
  CHECK(write_yaml(node) == "title: x\nbase: {train: {seq_len: 4096, precision: bf16}}\ncases:\n  - name: a\n");
  const std::string commented =
      write_yaml(node, [](const std::string& path) { return path == "base.train.seq_len" ? "tokens" : ""; });
  CHECK(contains(commented, "    seq_len: 4096  # tokens\n    precision: bf16\n"));
}

TEST_CASE("an entry takes the place of one with its key") {
  Node map = parsed("{a: 1, b: 2}");
  set_entry(map, "a", Node{{}, "3", false});
  set_entry(map, "c", Node{{}, "4", false});
  CHECK(write_yaml(map) == "a: 3\nb: 2\nc: 4\n");
}

}  // namespace
}  // namespace foretrain::config
