#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <cstring>
#include <istream>
#include <memory>
#include <numeric>
#include <streambuf>
#include <unordered_map>

#include "sim/config/quote.h"
#include "sim/config/text_file.h"
#include "sim/config/tree.h"
#include "sim/config/utf8.h"

namespace foretrain::config {
namespace {

constexpr std::size_t kMaxBytes = std::size_t{64} << 20;
constexpr std::size_t kMaxValues = 2'000'000;
constexpr std::size_t kMaxDepth = 64;
constexpr std::size_t kMaxLookahead = std::size_t{1} << 20;

// Put after the text: yaml-cpp 0.7 takes a quote that is never closed for closed at the end of input, but not at a
// document end marker.
constexpr std::string_view kEnd = "\n...\n";

// Ends the parse; what was wrong has been reported.
struct Stop {};

// What a value costs when it is repeated through an alias.
struct Weight {
  std::size_t values = 0;
  std::size_t bytes = 0;  // of text
  std::size_t depth = 0;  // nested collections
};

Weight weigh(const Node& node) {
  Weight weight{1, 0, 0};
  const auto add = [&weight](const Weight& child) {
    weight.values += child.values;
    weight.bytes += child.bytes;
    weight.depth = std::max(weight.depth, child.depth + 1);
  };
  if (node.is_scalar()) {
    weight.bytes = node.scalar().size();
  } else if (node.is_sequence()) {
    weight.depth = 1;
    for (const Node& child : node.sequence()) add(weigh(child));
  } else if (node.is_map()) {
    weight.depth = 1;
    for (const Node::Entry& entry : node.map()) {
      weight.bytes += entry.key.size();
      add(weigh(entry.value));
    }
  }
  return weight;
}

// Builds the tree from the parser's events.
class TreeBuilder final : public YAML::EventHandler {
 public:
  // `end` is where the text ends; the parser reads a little more (see kEnd).
  TreeBuilder(SourcePosition end, std::size_t text_size, Diagnostics& diagnostics)
      : end_(std::move(end)), text_size_(text_size), diagnostics_(diagnostics) {}

  Node take_root() { return std::move(root_); }
  std::size_t events() const { return events_; }
  bool is_past_text(const YAML::Mark& mark) const {
    return mark.pos >= 0 && static_cast<std::size_t>(mark.pos) >= text_size_;
  }
  SourcePosition at(const YAML::Mark& mark) const {
    return is_past_text(mark) ? end_ : SourcePosition{end_.file, mark.line + 1, mark.column + 1};
  }

  void OnDocumentStart(const YAML::Mark& mark) override {
    ++events_;
    if (documents_ > 0 && is_past_text(mark)) throw Stop{};
    if (++documents_ > 1) fail(at(mark), message("a second YAML document starts here; a file may hold one"));
  }
  void OnDocumentEnd() override { ++events_; }

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (expects_key()) fail(at(mark), message("a key is missing or null; a key must be text"));
    // The parser marks an absent value where the next thing begins; the line of its key says more.
    SourcePosition position = at(mark);
    if (!open_.empty() && open_.back().has_key && open_.back().key_position.line != position.line) {
      position = open_.back().key_position;
    }
    count({1, 0, 0}, position);
    attach(Node{position, Node::Null{}, false}, anchor);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& text) override {
    const SourcePosition position = at(mark);
    const bool is_quoted = tag == "!";  // yaml-cpp's mark of a scalar that was not plain
    check_tag(tag, position);
    count({1, text.size(), 0}, position);
    if (expects_key()) {
      if (!is_quoted && text == "<<") {
        diagnostics_.error(position, message("merge keys ('<<') are not supported; write the keys out"));
      }
      if (anchor != YAML::NullAnchor) anchors_[anchor] = Node{position, text, is_quoted};
      set_key(text, position);
    } else {
      attach(Node{position, text, is_quoted}, anchor);
    }
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const SourcePosition position = at(mark);
    if (expects_key()) fail(position, message("an alias stands where a key is expected; write the key out"));
    const auto anchored = anchors_.find(anchor);
    if (anchored == anchors_.end())
      fail(position, message("an alias stands inside the value it repeats; write the value out"));
    count(weigh(anchored->second), position);
    attach(Node(anchored->second), YAML::NullAnchor);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, Node::Sequence{});
  }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, Node::Map{});
  }
  void OnSequenceEnd() override { close(); }
  void OnMapEnd() override {
    report_duplicates(open_.back().node.map());
    close();
  }

 private:
  // A sequence or map whose end has not been seen.
  struct Open {
    Node node;
    YAML::anchor_t anchor = YAML::NullAnchor;
    bool has_key = false;  // a key that waits for its value
    std::string key;
    SourcePosition key_position;
  };

  [[noreturn]] void fail(const SourcePosition& position, Message message) {
    diagnostics_.error(position, std::move(message));
    throw Stop{};
  }

  bool expects_key() const { return !open_.empty() && open_.back().node.is_map() && !open_.back().has_key; }

  void set_key(const std::string& key, const SourcePosition& position) {
    open_.back().has_key = true;
    open_.back().key = key;
    open_.back().key_position = position;
  }

  // "?" and "!" are yaml-cpp's own for untagged values; a tag that the file spells out would change a value's type.
  void check_tag(const std::string& tag, const SourcePosition& position) {
    if (tag.empty() || tag == "?" || tag == "!") return;
    diagnostics_.error(position, message("tag {} is not supported; write the value without a tag", in_quotes(tag)));
  }

  void count(const Weight& weight, const SourcePosition& position) {
    ++events_;
    values_ += weight.values;
    bytes_ += weight.bytes;
    if (open_.size() + weight.depth > kMaxDepth) {
      fail(position, message("nested deeper than {} levels", kMaxDepth));
    }
    if (values_ > kMaxValues) {
      fail(position, message("more than {} values, aliases counted where they are repeated", kMaxValues));
    }
    if (bytes_ > kMaxBytes) {
      fail(position, message("more than {} MiB of text, aliases counted where they are repeated", kMaxBytes >> 20));
    }
  }

  template <class Collection>
  void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, Collection empty) {
    const SourcePosition position = at(mark);
    // Also what yaml-cpp makes of "[[1" at the end of input, where it takes the inner list for a key.
    if (expects_key()) {
      fail(position,
           message("a list or map stands where a key is expected; a key must be text, and brackets must be closed"));
    }
    check_tag(tag, position);
    count({1, 0, 1}, position);
    open_.push_back({Node{position, std::move(empty), false}, anchor, false, {}, {}});
  }

  void close() {
    ++events_;
    Open closed = std::move(open_.back());
    open_.pop_back();
    attach(std::move(closed.node), closed.anchor);
  }

  void attach(Node node, YAML::anchor_t anchor) {
    if (anchor != YAML::NullAnchor) {
      Weight copy = weigh(node);
      copy.depth = 0;  // kept aside, not nested
      count(copy, node.position);
      anchors_[anchor] = node;
    }
    if (open_.empty()) {
      root_ = std::move(node);
    } else if (Open& parent = open_.back(); parent.node.is_map()) {
      parent.node.map().push_back({std::move(parent.key), std::move(parent.key_position), std::move(node)});
      parent.has_key = false;
    } else {
      std::get<Node::Sequence>(parent.node.value).push_back(std::move(node));
    }
  }

  void report_duplicates(const Node::Map& map) {
    std::vector<std::size_t> order(map.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return map[a].key < map[b].key; });
    std::vector<std::pair<std::size_t, std::size_t>> repeats;  // {repeat, first}
    for (std::size_t i = 0, first = 0; i < order.size(); ++i) {
      if (map[order[i]].key != map[order[first]].key) first = i;
      if (i != first) repeats.emplace_back(order[i], order[first]);
    }
    std::sort(repeats.begin(), repeats.end());
    for (const auto& [repeat, first] : repeats) {
      diagnostics_.error(map[repeat].key_position,
                         message("key {} appears a second time; it was first given on line {}",
                                 in_quotes(map[repeat].key), map[first].key_position.line));
    }
  }

  SourcePosition end_;
  std::size_t text_size_;
  Diagnostics& diagnostics_;
  Node root_;
  std::vector<Open> open_;
  std::unordered_map<YAML::anchor_t, Node> anchors_;  // looked up only
  std::size_t events_ = 0;
  std::size_t documents_ = 0;
  std::size_t values_ = 0;
  std::size_t bytes_ = 0;
};

// Hands the text to yaml-cpp, and stops it when it has read far ahead without an event: its scanner keeps about a
// hundred bytes for each '[' or ',' of an unfinished flow collection, because that may yet turn out to be a key.
class BoundedText final : public std::streambuf {
 public:
  BoundedText(std::string_view text, const TreeBuilder& builder) : builder_(builder) {
    char* begin = const_cast<char*>(text.data());  // streambuf's get area is not const; it is only read
    setg(begin, begin, begin + text.size());
  }
  bool stalled() const { return stalled_; }

 protected:
  std::streamsize xsgetn(char* to, std::streamsize wanted) override {
    if (builder_.events() != events_) {
      events_ = builder_.events();
      ahead_ = 0;
    }
    const std::streamsize given = std::min<std::streamsize>(wanted, egptr() - gptr());
    ahead_ += static_cast<std::size_t>(given);
    if (ahead_ > kMaxLookahead) {
      stalled_ = true;
      throw Stop{};
    }
    std::memcpy(to, gptr(), static_cast<std::size_t>(given));
    setg(eback(), gptr() + given, egptr());
    return given;
  }

 private:
  const TreeBuilder& builder_;
  std::size_t events_ = 0;
  std::size_t ahead_ = 0;
  bool stalled_ = false;
};

// yaml-cpp's message with what would be right, where it does not say.
Message explain(const std::string& said) {
  namespace what = YAML::ErrorMsg;
  const auto is_any_of = [&](std::initializer_list<const char*> known) {
    return std::any_of(known.begin(), known.end(), [&](const char* k) { return said == k; });
  };
  if (is_any_of({what::END_OF_MAP, what::END_OF_SEQ})) {
    return message("the line does not continue the list or map above it; check the indentation, and for a missing ':'");
  }
  if (is_any_of({what::END_OF_MAP_FLOW})) return message("'{{' is not closed; add '}}' or ','");
  if (is_any_of({what::END_OF_SEQ_FLOW})) return message("'[' is not closed; add ']' or ','");
  if (is_any_of({what::TAB_IN_INDENTATION})) return message("a tab in the indentation; use spaces");
  if (is_any_of({what::MAP_VALUE}))
    return message("':' is not expected here; put the text in quotes, or check the indentation");
  if (is_any_of({what::MAP_KEY})) return message("a key is not expected here; check the indentation");
  if (is_any_of({what::BLOCK_ENTRY})) return message("'-' is not expected here; put the list on lines of its own");
  if (is_any_of({what::EOF_IN_SCALAR, what::DOC_IN_SCALAR})) return message("a quote is not closed");
  if (is_any_of({what::UNKNOWN_TOKEN})) return message("a character that cannot start a value; put the text in quotes");
  if (is_any_of({what::BAD_FILE})) return message("nested deeper than {} levels", kMaxDepth);
  return quoted_words(std::string_view(said).substr(0, 200));
}

void run_parser(std::string_view text, TreeBuilder& builder, Diagnostics& diagnostics, const SourcePosition& whole) {
  BoundedText buffer(text, builder);
  std::istream stream(&buffer);
  try {
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const Stop&) {
    if (buffer.stalled()) {
      diagnostics.error(whole,
                        message("a value, or a list or map in brackets, is longer than {} MiB", kMaxLookahead >> 20));
    }
  } catch (const YAML::Exception& e) {
    diagnostics.error(e.mark.is_null() ? whole : builder.at(e.mark), explain(e.msg));
  } catch (const std::exception& e) {
    diagnostics.error(whole, message("cannot be read as YAML ({})", e.what()));
  }
}

}  // namespace

std::optional<Node> parse_yaml(std::string_view text, const std::string& file_name, Diagnostics& diagnostics) {
  const SourcePosition whole{std::make_shared<const std::string>(file_name), 0, 0};
  const auto refuse = [&](int line, int column, Message message) {
    diagnostics.error({whole.file, line, column}, std::move(message));
    return std::nullopt;
  };
  if (text.size() > kMaxBytes) return refuse(0, 0, message("larger than {} MiB", kMaxBytes >> 20));
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);  // byte order mark
  const TextCheck checked = check_text(text);
  if (!checked.wrong.empty()) return refuse(checked.line, checked.column, checked.wrong);

  const int errors_before = diagnostics.error_count();
  TreeBuilder builder({whole.file, checked.line, checked.column}, text.size(), diagnostics);
  run_parser(std::string(text) + std::string(kEnd), builder, diagnostics, whole);
  if (diagnostics.error_count() > errors_before) return std::nullopt;
  Node root = builder.take_root();
  if (root.is_null()) root.position = {whole.file, 1, 1};
  return root;
}

std::optional<Node> parse_yaml_file(const std::string& path, Diagnostics& diagnostics) {
  const std::optional<std::string> text = read_text_file(path, kMaxBytes, diagnostics);
  return text ? parse_yaml(*text, path, diagnostics) : std::nullopt;
}

}  // namespace foretrain::config
