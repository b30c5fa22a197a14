#include "sim/trace/event_writer.h"

#include <doctest/doctest.h>

#include <limits>
#include <nlohmann/json.hpp>

using namespace foretrain;
using namespace foretrain::trace;

TEST_CASE("times are to the nanosecond, names may be any text") {
  std::string text;
  EventWriter writer([&](std::string_view piece) { text += piece; }, R"("a":1)");
  writer.name_process(1, "a \"quoted\"\n\xff name");
  writer.name_track({1, 2}, "\\");
  writer.slice({1, 2}, "long", "x", Time{1499}, Time{1'000'001'234'567});
  writer.slice({1, 2}, "within a nanosecond", "x", Time{1501}, Time{2400});
  writer.arrow({1, 2}, Time{5}, {1, 3}, Time{6});
  const EventWriter::Series series[] = {{"a", 0.1}, {"b", 1e300}};
  writer.counter(1, "c", Time{7}, series);
  writer.finish();
  CHECK(text.find(R"("ts":0.001,"dur":1000001.234)") != std::string::npos);
  const auto file = nlohmann::json::parse(text);
  CHECK(file.at("otherData").at("a") == 1);
  CHECK(file.at("traceEvents").size() == 8);
  CHECK(file.at("traceEvents").back().at("args").at("b") == 1e300);
}

TEST_CASE("without events it is an empty timeline; long ones are handed over in pieces") {
  std::string text;
  EventWriter empty([&](std::string_view piece) { text += piece; }, "");
  empty.finish();
  CHECK(nlohmann::json::parse(text).at("traceEvents").empty());

  std::size_t pieces = 0, longest = 0;
  EventWriter writer(
      [&](std::string_view piece) {
        ++pieces;
        longest = std::max(longest, piece.size());
      },
      "");
  for (int i = 0; i < 10'000; ++i) writer.slice({1, 1}, "slice", "x", Time{1000 * i}, Time{1000 * i + 1000});
  writer.finish();
  CHECK(pieces > 5);
  CHECK(longest < 70'000);
}
