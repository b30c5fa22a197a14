#include "sim/config/reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "sim/config/quote.h"

namespace foretrain::config {
namespace {

constexpr double kMaxExact = 9007199254740992.0;  // 2^53: doubles hold every whole number up to here

std::string_view base_unit(Unit unit) {
  switch (unit) {
    case Unit::count:
      return "";
    case Unit::bytes:
    case Unit::gigabytes:
      return " bytes";
    case Unit::bytes_rate:
    case Unit::network_rate:
      return " bytes/s";
    case Unit::teraflops:
      return " FLOP/s";
    case Unit::seconds:
    case Unit::microseconds:
    case Unit::milliseconds:
      return " seconds";
    case Unit::watts:
      return " W";
  }
  return "";
}

// A bound as one writes it: whole numbers without exponent while they are short.
std::string bound(double value, Unit unit) {
  const bool whole = std::abs(value) < 1e12 && value == std::floor(value);
  return (whole ? fmt::format("{:.0f}", value) : fmt::format("{}", value)) + std::string(base_unit(unit));
}

std::optional<Message> out_of_range(double value, Range range, Unit unit) {
  if (value >= range.min && value <= range.max) return std::nullopt;
  if (std::isinf(range.max)) return message("must be at least {}", bound(range.min, unit));
  if (std::isinf(range.min)) return message("must be at most {}", bound(range.max, unit));
  return message("must be between {} and {}", bound(range.min, Unit::count), bound(range.max, unit));
}

// A whole number no larger than 2^53; also "1e9" and "16k". Digits alone are read as digits, since a double would
// round those beyond 2^53 to a neighbour.
std::optional<std::int64_t> parse_integer(std::string_view text, Message& why_not) {
  std::int64_t digits = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), digits);
  constexpr std::int64_t kMaxInteger = std::int64_t{1} << 53;
  const bool all_digits = error == std::errc{} && end == text.data() + text.size();
  if (all_digits && digits >= -kMaxInteger && digits <= kMaxInteger) {
    return digits;
  }
  const std::optional<double> value = parse_number(text, Unit::count, why_not);
  if (!value || *value != std::floor(*value)) {
    const bool unit_is_wrong = !value && why_not.pattern().find(';') != std::string::npos;
    if (!unit_is_wrong) why_not = message("{} is not a whole number", in_quotes(text));
    return std::nullopt;
  }
  if (std::abs(*value) >= kMaxExact) {
    why_not = message("{} is too large a whole number; must be at most 2^53", in_quotes(text));
    return std::nullopt;
  }
  return static_cast<std::int64_t>(*value);
}

Message kind_of(const Node& node) {
  if (node.is_map()) return message("a map");
  if (node.is_sequence()) return message("a list");
  return message("a single value");
}

std::int64_t to_integer(double value) {
  return static_cast<std::int64_t>(std::clamp(std::ceil(value), -kMaxExact, kMaxExact));
}

}  // namespace

MapReader::MapReader(const Node& node, Diagnostics& diagnostics, std::string what)
    : node_(&node), diagnostics_(diagnostics), what_(std::move(what)) {
  if (node.is_map() || node.is_null()) return;
  const Message shown = node.is_scalar() ? Message(in_quotes(node.scalar())) : message("a list");
  diagnostics_.error(node.position, message("{} must be a map of keys and values, not {}",
                                            what_.empty() ? message("this") : Message(what_), shown));
}

const Node* MapReader::node(std::string_view key) {
  if (std::find(known_.begin(), known_.end(), key) == known_.end()) known_.emplace_back(key);
  return node_->find(key);
}

const Node& MapReader::child(std::string_view key) {
  static const Node kAbsent{};
  const Node* found = node(key);
  return found != nullptr ? *found : kAbsent;
}

bool MapReader::has(std::string_view key) { return node(key) != nullptr; }

SourcePosition MapReader::position() const { return node_->position; }

SourcePosition MapReader::position_of(std::string_view key) const {
  const Node* value = node_->find(key);
  return value != nullptr ? value->position : position();
}

std::string MapReader::path_of(std::string_view key) const {
  return what_.empty() ? std::string(key) : fmt::format("{}.{}", what_, key);
}

const std::string* MapReader::scalar_of(std::string_view key, const Node& value, const Message& wanted,
                                        bool quotes_allowed) {
  if (!value.is_scalar()) {
    diagnostics_.error(value.position,
                       message("{}: {} stands where {} is expected", path_of(key), kind_of(value), wanted));
    return nullptr;
  }
  if (value.quoted && !quotes_allowed) {
    diagnostics_.error(value.position, message("{}: {} in quotes is text, not {}; write it without quotes",
                                               path_of(key), in_quotes(value.scalar()), wanted));
    return nullptr;
  }
  return &value.scalar();
}

std::optional<double> MapReader::number_of(std::string_view key, const Node& value, Unit unit, Range range) {
  const std::string* written = scalar_of(key, value, message("a number"), false);
  if (written == nullptr) return std::nullopt;
  Message why_not;
  const std::optional<double> parsed = parse_number(*written, unit, why_not);
  if (!parsed) {
    diagnostics_.error(value.position, message("{}: {}", path_of(key), why_not));
  } else if (const std::optional<Message> rule = out_of_range(*parsed, range, unit)) {
    report_range(key, value, *rule);
    return std::nullopt;
  }
  return parsed;
}

void MapReader::report_range(std::string_view key, const Node& value, const Message& rule) {
  const std::string shown = in_quotes(value.scalar());
  diagnostics_.error(value.position,
                     message("{}={} is out of range; {}", path_of(key), shown.substr(1, shown.size() - 2), rule));
}

const Node* MapReader::value_of(std::string_view key) { return present(node(key)); }

std::optional<std::string> MapReader::text(std::string_view key) {
  const Node* value = value_of(key);
  if (value == nullptr) return std::nullopt;
  const std::string* written = scalar_of(key, *value, message("text"), true);
  if (written == nullptr) return std::nullopt;
  return *written;
}

std::optional<bool> MapReader::boolean(std::string_view key) {
  const Node* value = value_of(key);
  if (value == nullptr) return std::nullopt;
  const std::string* written = scalar_of(key, *value, message("a boolean"), false);
  if (written == nullptr) return std::nullopt;
  const std::optional<bool> parsed = parse_boolean(*written);
  if (!parsed) {
    error(key, message("{}: {} is not a boolean; write true or false", path_of(key), in_quotes(*written)));
  }
  return parsed;
}

std::optional<std::int64_t> MapReader::integer(std::string_view key, Range range) {
  const Node* value = value_of(key);
  if (value == nullptr) return std::nullopt;
  const std::string* written = scalar_of(key, *value, message("a whole number"), false);
  if (written == nullptr) return std::nullopt;
  Message why_not;
  const std::optional<std::int64_t> parsed = parse_integer(*written, why_not);
  if (!parsed) {
    error(key, message("{}: {}", path_of(key), why_not));
  } else if (const auto rule = out_of_range(static_cast<double>(*parsed), range, Unit::count)) {
    report_range(key, *value, *rule);
    return std::nullopt;
  }
  return parsed;
}

std::optional<double> MapReader::number(std::string_view key, Unit unit, Range range) {
  const Node* value = value_of(key);
  if (value == nullptr) return std::nullopt;
  return number_of(key, *value, unit, range);
}

std::optional<std::vector<std::string>> MapReader::text_list(std::string_view key) {
  const Node* value = value_of(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_scalar()) return std::vector<std::string>{value->scalar()};
  if (!value->is_sequence()) {
    error(key, message("{}: a map stands where a list is expected", path_of(key)));
    return std::nullopt;
  }
  std::vector<std::string> result;
  bool all_good = true;
  for (const Node& item : value->sequence()) {
    const std::string* written = scalar_of(key, item, message("text"), true);
    all_good = all_good && written != nullptr;
    if (written != nullptr) result.push_back(*written);
  }
  if (!all_good) return std::nullopt;
  return result;
}

std::optional<std::vector<double>> MapReader::number_list(std::string_view key, Unit unit, Range range) {
  const Node* value = value_of(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_map()) {
    error(key, message("{}: a map stands where a list is expected", path_of(key)));
    return std::nullopt;
  }
  std::vector<double> result;
  bool all_good = true;
  const auto take = [&](const Node& item) {
    const std::optional<double> parsed = number_of(key, item, unit, range);
    all_good = all_good && parsed.has_value();
    if (parsed) result.push_back(*parsed);
  };
  if (value->is_scalar()) {
    take(*value);
  } else {
    for (const Node& item : value->sequence()) take(item);
  }
  if (!all_good) return std::nullopt;
  return result;
}

std::optional<std::size_t> MapReader::choice(std::string_view key, const std::vector<std::string>& allowed) {
  const std::optional<std::string> written = text(key);
  if (!written) return std::nullopt;
  const auto found = std::find(allowed.begin(), allowed.end(), *written);
  if (found != allowed.end()) return static_cast<std::size_t>(found - allowed.begin());
  error(key, message("{}: {} is not one of {}{}", path_of(key), in_quotes(*written), fmt::join(allowed, ", "),
                     did_you_mean(*written, allowed)));
  return std::nullopt;
}

bool MapReader::report_missing(std::string_view key) {
  if (value_of(key) != nullptr) return false;
  error(key, message("{} is missing; it must be given", path_of(key)));
  return true;
}

std::string MapReader::required_text(std::string_view key) {
  if (report_missing(key)) return "";
  return text(key).value_or("");
}

std::int64_t MapReader::required_integer(std::string_view key, Range range) {
  const std::int64_t placeholder = to_integer(std::min(std::max(1.0, range.min), range.max));
  if (report_missing(key)) return placeholder;
  return integer(key, range).value_or(placeholder);
}

double MapReader::required_number(std::string_view key, Unit unit, Range range) {
  const double placeholder = std::min(std::max(1.0, range.min), range.max);
  if (report_missing(key)) return placeholder;
  return number(key, unit, range).value_or(placeholder);
}

void MapReader::error(std::string_view key, Message message) {
  diagnostics_.error(position_of(key), std::move(message));
}

void MapReader::finish() {
  if (!node_->is_map()) return;
  constexpr int kMostReported = 20;
  const Message in_what = what_.empty() ? Message() : message(" in {}", what_);
  int unknown = 0;
  SourcePosition last;
  for (const Node::Entry& entry : node_->map()) {
    if (std::find(known_.begin(), known_.end(), entry.key) != known_.end()) continue;
    last = entry.key_position;
    if (++unknown > kMostReported) continue;
    Message hint = did_you_mean(entry.key, known_);
    if (hint.empty() && !known_.empty()) hint = message("; known keys: {}", fmt::join(known_, ", "));
    diagnostics_.error(entry.key_position, message("unknown key {}{}{}", in_quotes(entry.key), in_what, hint));
  }
  if (unknown > kMostReported) {
    diagnostics_.error(last, message("{} more unknown keys{} up to here", unknown - kMostReported, in_what));
  }
}

}  // namespace foretrain::config
