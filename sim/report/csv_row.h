#pragma once

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/units.h"
#include "sim/report/csv.h"

namespace foretrain::report {

// A row with the names of its columns, so that the two cannot drift apart.
class CsvRow {
 public:
  void add(std::string name, const std::string& text) { fields_.emplace_back(std::move(name), csv_field(text)); }
  void add(std::string name, const char* text) { add(std::move(name), std::string(text)); }
  void add(std::string name, double value) { add(std::move(name), fmt::format("{}", value)); }  // shortest exact
  void add(std::string name, std::int64_t value) { add(std::move(name), fmt::format("{}", value)); }
  void add(std::string name, int value) { add(std::move(name), std::int64_t{value}); }
  void add(std::string name, bool value) { add(std::move(name), value ? "true" : "false"); }
  void add(std::string name, Bytes value) { add(std::move(name), std::int64_t{std::llround(value.value)}); }
  template <class T>
  void add(std::string name, const std::optional<T>& value) {
    value ? add(std::move(name), *value) : add(std::move(name), "");
  }

  std::string names() const { return line(&Field::first); }
  std::string values() const { return line(&Field::second); }

 private:
  using Field = std::pair<std::string, std::string>;
  std::string line(std::string Field::*part) const {
    std::string text;
    for (const Field& field : fields_) text += (text.empty() && &field == &fields_.front() ? "" : ",") + field.*part;
    return text + "\n";
  }
  std::vector<Field> fields_;
};

}  // namespace foretrain::report
