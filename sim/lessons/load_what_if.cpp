#include "sim/lessons/load_what_if.h"

#include <algorithm>

#include "sim/config/quote.h"

namespace foretrain {
namespace {

using config::MapReader;
using config::Node;

constexpr std::size_t kMostSliders = 8, kMostPositions = 20, kMostCases = 5000;

// A position of a slider: its name, and what it changes of the case.
struct Position {
  std::string name;
  Node change;
};

const Node* list_of(MapReader& reader, const char* key, std::size_t most) {
  const Node* list = reader.node(key);
  if (list != nullptr && list->is_sequence() && !list->sequence().empty() && list->sequence().size() <= most)
    return list;
  reader.error(key, message("{} must be a list of 1 to {}", key, most));
  return nullptr;
}

std::vector<Position> read_positions(const Node& list, Diagnostics& diagnostics) {
  std::vector<Position> positions;
  for (const Node& node : list.sequence()) {
    const Node* name = node.is_map() ? node.find("name") : nullptr;
    if (name == nullptr || !name->is_scalar()) {
      diagnostics.error(node.position, message("a position needs a name"));
      continue;
    }
    positions.push_back({name->scalar(), node});
  }
  return positions;
}

std::vector<Position> read_slider(const Node& node, WhatIf& what_if, Diagnostics& diagnostics) {
  MapReader reader(node, diagnostics, "slider");
  WhatIf::Slider slider{reader.required_text("name"), {}, 0};
  const std::string start = reader.required_text("start");
  const Node* list = list_of(reader, "positions", kMostPositions);
  std::vector<Position> positions = list != nullptr ? read_positions(*list, diagnostics) : std::vector<Position>{};
  for (const Position& position : positions) slider.positions.push_back(position.name);
  const auto found = std::find(slider.positions.begin(), slider.positions.end(), start);
  slider.start = static_cast<std::size_t>(found - slider.positions.begin());
  if (found == slider.positions.end() && !positions.empty()) {
    reader.error("start",
                 message("there is no position {}{}", config::in_quotes(start), did_you_mean(start, slider.positions)));
  }
  reader.finish();
  what_if.sliders.push_back(std::move(slider));
  return positions;
}

// Every combination as a case of a scenario, named after its positions.
Node::Sequence combinations(const std::vector<std::vector<Position>>& sliders, const SourcePosition& position) {
  std::vector<Position> all = {{"", {position, Node::Map{}}}};
  for (const std::vector<Position>& slider : sliders) {
    std::vector<Position> longer;
    for (const Position& before : all) {
      for (const Position& next : slider) {
        longer.push_back({before.name.empty() ? next.name : before.name + ", " + next.name,
                          config::merge(before.change, next.change)});
      }
    }
    all = std::move(longer);
  }
  Node::Sequence cases;
  for (Position& combination : all) {
    for (Node::Entry& entry : combination.change.map()) {
      if (entry.key == "name") entry.value = {entry.value.position, combination.name, true};
    }
    cases.push_back(std::move(combination.change));
  }
  return cases;
}

}  // namespace

std::optional<WhatIf> read_what_if(const Node& node, const Node* base, const DataFolder& data,
                                   Diagnostics& diagnostics) {
  MapReader reader(node, diagnostics, "what_if");
  WhatIf what_if;
  what_if.text = reader.required_text("text");
  const Node* own = reader.node("base");
  const Node* list = list_of(reader, "sliders", kMostSliders);
  reader.finish();
  std::vector<std::vector<Position>> sliders;
  std::size_t count = 1;
  for (const Node& slider : list != nullptr ? list->sequence() : Node::Sequence{}) {
    sliders.push_back(read_slider(slider, what_if, diagnostics));
    count *= sliders.back().size();
  }
  if (count > kMostCases) {
    reader.error("sliders", message("that makes {} combinations; at most {} are simulated", count, kMostCases));
  }
  if (count == 0 || count > kMostCases || list == nullptr) return std::nullopt;
  Node::Map scenario;
  const bool both = own != nullptr && base != nullptr;
  if (both || own != nullptr || base != nullptr) {
    const Node& one = own != nullptr ? *own : *base;
    scenario.push_back({"base", one.position, both ? config::merge(*base, *own) : one});
  }
  scenario.push_back({"cases", list->position, {list->position, combinations(sliders, list->position)}});
  auto read = read_scenario({node.position, std::move(scenario)}, data, diagnostics);
  if (!read) return std::nullopt;
  what_if.cases = std::move(read->cases);
  return what_if;
}

}  // namespace foretrain
