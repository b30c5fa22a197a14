#include "sim/calibration/calibrate_rules.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/config/quote.h"
#include "sim/config/reader.h"

namespace foretrain {
namespace {

using config::MapReader;
using config::Node;
using config::Unit;
using Kind = CalibrationRule::Kind;

constexpr config::Range kFraction{1e-6, 1.1};
constexpr config::Range kFactor{0.1, 10};

enum class Form { number, fraction, attention };

AchievedRates::Attention read_attention(const Node& node, Diagnostics& diagnostics) {
  MapReader map(node, diagnostics, "attention");
  AchievedRates::Attention rates;
  rates.forward = map.required_number("forward", Unit::count, kFraction);
  rates.backward = map.required_number("backward", Unit::count, kFraction);
  rates.prologue = map.required_number("prologue_tokens", Unit::count, {0, 1e5});
  map.finish();
  return rates;
}

// One of value, measured, as, assumed; null or absent: the card does not have it.
CalibrationRule read_rule(MapReader& parent, std::string_view key, Form form, Diagnostics& diagnostics) {
  CalibrationRule rule;
  const Node* node = parent.node(key);
  rule.position = parent.position_of(key);
  if (present(node) == nullptr) return rule;
  MapReader map(*node, diagnostics, std::string(key));
  rule.source = map.required_text("source");

  const auto literal = [&](std::string_view name) {
    const Node* given = map.node(name);
    if (present(given) == nullptr) return false;
    if (form == Form::attention) {
      rule.attention = read_attention(*given, diagnostics);
    } else {
      rule.value = map.required_number(name, Unit::count, form == Form::fraction ? kFraction : config::Range{0, 1000});
    }
    return true;
  };
  int given = 0;
  if (literal("value")) rule.kind = Kind::value, ++given;
  if (literal("assumed")) rule.kind = Kind::assumed, ++given;
  if (map.boolean("measured").value_or(false)) rule.kind = Kind::measured, ++given;
  if (const auto name = map.text("as")) {
    rule.kind = Kind::as;
    rule.as = *name;
    rule.times = map.number("times", Unit::count, kFactor).value_or(1.0);
    rule.like_matmul = map.boolean("like_matmul").value_or(false);
    ++given;
  }
  rule.sustained = map.number("sustained", Unit::count, kFactor);
  if (form == Form::attention) rule.backward_of_forward = map.number("backward_of_forward", Unit::count, kFactor);
  map.finish();
  if (given != 1) {
    diagnostics.error(map.position(), message("{} needs one of value, measured: true, as and assumed", key));
    rule.kind = Kind::absent;
  }
  return rule;
}

CalibrationRule required_rule(MapReader& parent, std::string_view key, Form form, Diagnostics& diagnostics) {
  CalibrationRule rule = read_rule(parent, key, form, diagnostics);
  if (!parent.has(key)) parent.error(key, message("{} is missing", key));
  return rule;
}

const Node& node_or_empty(MapReader& parent, std::string_view key) {
  static const Node empty;
  const Node* node = parent.node(key);
  return node != nullptr ? *node : empty;
}

bool plain_name(std::string_view name) {
  return !name.empty() && name.size() <= 64 && name.front() != '-' && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  });
}

FileRules read_file(const Node& node, Diagnostics& diagnostics) {
  MapReader map(node, diagnostics, "");
  FileRules file;
  file.position = map.position();
  file.name = map.required_text("name");
  if (!file.name.empty() && !plain_name(file.name)) {
    map.error("name", message("a name is lower-case letters, digits and '-'; it becomes that of a file"));
  }
  file.title = map.required_text("title");
  file.measured_on = map.text_list("measured_on").value_or(std::vector<std::string>{});
  {
    MapReader matmul(node_or_empty(map, "matmul"), diagnostics, "matmul");
    for (int i = 0; i < kMeasuredPrecisions; ++i) {
      file.matmul[static_cast<std::size_t>(i)] =
          read_rule(matmul, to_string(static_cast<Precision>(i)), Form::fraction, diagnostics);
    }
    matmul.finish();
  }
  file.memory = required_rule(map, "memory", Form::fraction, diagnostics);
  {
    MapReader attention(node_or_empty(map, "attention"), diagnostics, "attention");
    for (std::size_t k = 1; k < kAttentionKernels; ++k) {
      file.attention[k] = read_rule(attention, fmt::format("flash{}", k), Form::attention, diagnostics);
    }
    attention.finish();
  }
  file.collective_channels = required_rule(map, "collective_channels", Form::number, diagnostics);
  map.finish();
  return file;
}

}  // namespace

std::optional<CalibrationRules> load_rules(const std::string& path, Diagnostics& diagnostics) {
  const int errors_before = diagnostics.error_count();
  const std::optional<Node> node = config::parse_yaml_file(path, diagnostics);
  if (!node) return std::nullopt;
  MapReader map(*node, diagnostics, "");
  CalibrationRules rules;
  rules.kernel_floor = required_rule(map, "kernel_floor_us", Form::number, diagnostics);
  rules.elementwise_floor = required_rule(map, "elementwise_floor_us", Form::number, diagnostics);
  const Node* files = map.node("files");
  if (files == nullptr || !files->is_sequence()) {
    map.error("files", message("files must be a list, one entry for each file of hardware/calibrated"));
  } else {
    for (const Node& file : files->sequence()) rules.files.push_back(read_file(file, diagnostics));
  }
  map.finish();
  for (std::size_t i = 0; i < rules.files.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (rules.files[i].name != rules.files[j].name) continue;
      diagnostics.error(rules.files[i].position,
                        message("there are two entries {}", config::in_quotes(rules.files[i].name)));
    }
  }
  if (diagnostics.error_count() > errors_before) return std::nullopt;
  return rules;
}

}  // namespace foretrain
