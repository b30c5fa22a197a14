#include "sim/scenario/software_default.h"

#include <algorithm>
#include <string_view>

#include "sim/config/reader.h"

namespace foretrain {
namespace {

using config::MapReader;
using config::Node;
using Need = SoftwareNeeds::Need;

constexpr std::size_t kMostRules = 100;

const std::vector<std::string>& need_names() {
  static const std::vector<std::string> names = {"model-parallel", "sharding-group", "zero",
                                                 "offload",        "adapters",       "8-bit-optimizer"};
  return names;
}

// A value that is not there reads as null.
const Node& value_of(const Node& map, std::string_view key) {
  static const Node null;
  const Node* value = map.is_map() ? map.find(key) : nullptr;
  return value != nullptr ? *value : null;
}

std::string word(const Node& node) { return node.is_scalar() ? node.scalar() : ""; }

bool at_least(const Node& node, double least) {
  Message why_not;
  const auto number =
      node.is_scalar() ? config::parse_number(node.scalar(), config::Unit::count, why_not) : std::nullopt;
  return number && *number >= least;
}

bool says_yes(const Node& node) { return node.is_map() || config::parse_boolean(word(node)).value_or(false); }

bool splits_the_model(const Node& plan) {
  for (const char* key : {"tp", "pp", "vpp", "cp", "ep", "etp"}) {
    if (at_least(value_of(plan, key), 2)) return true;
  }
  return says_yes(value_of(plan, "sequence_parallel")) || !value_of(plan, "schedule").is_null();
}

// A word or a map of what is moved.
bool moves_anything(const Node& offload) { return !offload.is_null() && word(offload) != "none"; }

bool has_adapters(const Node& peft) {
  const std::string kind = word(peft.is_map() ? value_of(peft, "kind") : peft);
  return !kind.empty() && kind != "none";
}

Message reason(Need need) {
  switch (need) {
    case Need::model_parallel:
      return message("tensor, pipeline, context or expert parallelism");
    case Need::sharding_group:
      return message("sharding in groups");
    case Need::zero:
      return message("ZeRO without tensor or pipeline parallelism");
    case Need::offload:
      return message("offload to the host");
    case Need::adapters:
      return message("adapters");
    case Need::optimizer_8bit:
      return message("an 8-bit optimizer");
  }
  return {};
}

}  // namespace

void SoftwareNeeds::add(const Node& described) {
  if (!value_of(described, "software").is_null()) return;
  const Node &plan = value_of(described, "plan"), &train = value_of(described, "train");
  const auto ask = [this](Need need, bool asks) { asked[static_cast<std::size_t>(need)] |= asks; };
  ask(Need::model_parallel, splits_the_model(plan));
  ask(Need::sharding_group, at_least(value_of(plan, "shard_group"), 2));
  ask(Need::zero, at_least(value_of(plan, "zero"), 1) || says_yes(value_of(plan, "zeropp")));
  ask(Need::offload, moves_anything(value_of(plan, "offload")));
  ask(Need::adapters, has_adapters(value_of(train, "peft")));
  ask(Need::optimizer_8bit, word(value_of(train, "optimizer")).ends_with("8bit"));
}

std::optional<SoftwareDefaults> SoftwareDefaults::load(const DataFolder& data, Diagnostics& diagnostics) {
  const int errors_before = diagnostics.error_count();
  const auto root = config::parse_yaml_file(data.path + "/configs/software-defaults.yaml", diagnostics);
  if (!root) return std::nullopt;
  MapReader reader(*root, diagnostics, "");
  const Node& rules = reader.child("rules");
  reader.finish();
  SoftwareDefaults defaults;
  if (!rules.is_sequence() || rules.sequence().empty() || rules.sequence().size() > kMostRules) {
    diagnostics.error(rules.position, message("rules must be a list of 1 to {} rules", kMostRules));
    return std::nullopt;
  }
  for (const Node& item : rules.sequence()) {
    MapReader rule_reader(item, diagnostics, "rule");
    Rule rule{{}, rule_reader.required_text("software")};
    for (const std::string& name : rule_reader.text_list("asks").value_or(std::vector<std::string>{})) {
      const auto known = std::find(need_names().begin(), need_names().end(), name);
      if (known == need_names().end()) {
        rule_reader.error("asks", message("asks has no {}{}", name, did_you_mean(name, need_names())));
      } else {
        rule.asks.push_back(static_cast<Need>(known - need_names().begin()));
      }
    }
    rule_reader.finish();
    defaults.rules_.push_back(std::move(rule));
  }
  if (!defaults.rules_.back().asks.empty()) {
    diagnostics.error(rules.sequence().back().position, message("the last rule must ask for nothing"));
  }
  if (diagnostics.error_count() > errors_before) return std::nullopt;
  return defaults;
}

SoftwareDefaults::Choice SoftwareDefaults::choose(const SoftwareNeeds& needs) const {
  const auto holds = [&](const Rule& rule) {
    return std::all_of(rule.asks.begin(), rule.asks.end(),
                       [&](Need need) { return needs.asked[static_cast<std::size_t>(need)]; });
  };
  const Rule& rule = *std::find_if(rules_.begin(), rules_.end(), holds);
  return {rule.software, rule.asks.empty() ? Message() : reason(rule.asks.front())};
}

}  // namespace foretrain
