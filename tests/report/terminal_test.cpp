#include "sim/report/terminal.h"

#include <doctest/doctest.h>

#include "sim/report/figures.h"
#include "tests/report/support.h"

using namespace foretrain;
using namespace foretrain::report;
using foretrain::report::testing::widest;

TEST_CASE("display width") {
  CHECK(display_width("abc") == 3);
  CHECK(display_width("8 × A100") == 8);
  CHECK(display_width("显存") == 4);
  CHECK(display_width("e\xCC\x81") == 1);  // combining accent
  CHECK(display_width("\xFF\xFE") == 2);   // broken bytes stand for one column each
}

TEST_CASE("names cannot drive the terminal") {
  CHECK(printable("red \x1b[31m") == "red \xEF\xBF\xBD[31m");
  CHECK(printable("two\nlines") == "two lines");
  CHECK(printable("\xC2\x9B") == "\xEF\xBF\xBD");              // CSI as one character
  CHECK(printable("\xE2\x80\xAE") == "\xEF\xBF\xBD");          // right-to-left override
  CHECK(printable("\xC0\xAF") == "\xEF\xBF\xBD\xEF\xBF\xBD");  // overlong
  CHECK(printable("\xED\xA0\x80x").ends_with("x"));            // surrogate
  CHECK(printable("显存 ×") == "显存 ×");
}

TEST_CASE("cutting and wrapping respect the width") {
  CHECK(cut("abcdef", 6) == "abcdef");
  CHECK(cut("abcdef", 4) == "abc…");
  CHECK(display_width(cut("显存显存", 4)) <= 4);
  CHECK(wrapped("one two three", 8, 2) == "one two\n  three");
  CHECK(wrapped("  kept margin", 80, 4) == "  kept margin");
  CHECK(wrapped("", 80, 4) == "");
  CHECK(widest(wrapped("a sentence of several words that has to be broken", 20, 4)) <= 20);
}

TEST_CASE("bars") {
  CHECK(bar(0, 4) == "    ");
  CHECK(bar(1, 4) == "████");
  CHECK(bar(0.5, 4) == "██  ");
  CHECK(bar(2, 4) == "████");
  CHECK(display_width(bar(0.3, 10)) == 10);
}

TEST_CASE("colour only where it is wanted") {
  CHECK(styled("x", Style::bad, {.colour = false}) == "x");
  CHECK(styled("x", Style::bad, {.colour = true}) == "\x1b[1;31mx\x1b[0m");
  CHECK(styled("x", Style::plain, {.colour = true}) == "x");
}

TEST_CASE("a table is aligned") {
  TextTable table({"name", "value"});
  table.add({{"显存"}, {"1"}});
  table.add({{"a"}, {"12345"}});
  CHECK(table.text({.width = 80}) == "name  value\n显存      1\na     12345\n");
  CHECK(table.width() == 11);
}

TEST_CASE("a wide table is cut, then continued below") {
  std::vector<std::string> header = {"case"};
  for (int i = 0; i < 12; ++i) header.push_back("column " + std::to_string(i));
  TextTable table(header);
  std::vector<TextTable::Cell> row = {{"a case with a rather long name of its own"}};
  for (int i = 0; i < 12; ++i) row.push_back({"1234.5 %"});
  table.add(row);
  const std::string text = table.text({.width = 60});
  CHECK(widest(text) <= 60);
  for (int i = 0; i < 12; ++i) CHECK(text.find("column " + std::to_string(i)) != std::string::npos);
  CHECK(widest(table.text({.width = 400})) > 60);
}

TEST_CASE("figures for people") {
  CHECK(grouped(0) == "0");
  CHECK(grouped(999) == "999");
  CHECK(grouped(1234567) == "1,234,567");
  CHECK(grouped(-1234) == "-1,234");
  CHECK(duration(Time::from_seconds(1.23456)) == "1.235 s");
  CHECK(duration(Time::from_seconds(123.456)) == "123.5 s");
  CHECK(duration(Time::from_seconds(0.0123456)) == "12.35 ms");
  CHECK(duration(Time::from_seconds(1234567)) == "1,234,567 s");
  CHECK(duration(Time{}) == "0.000 s");
  CHECK(gib(Bytes{1.5 * kGiB}) == "1.5");
  CHECK(percent(0.4567) == "45.7 %");
  CHECK(signed_percent(0.0461) == "+4.6 %");
  CHECK(exact_seconds(Time{1}) == 1e-12);
}
