#include "sim/base/diagnostics.h"

#include <doctest/doctest.h>

using namespace foretrain;

TEST_CASE("a diagnostic prints as file:line:column: severity: message") {
  Diagnostics diagnostics;
  auto file = std::make_shared<const std::string>("plan.yaml");
  diagnostics.error({file, 14, 9}, message("tp={} does not divide heads={}", 3, 32));
  diagnostics.warning({file, 0, 0}, message("no {}", "NIC"));
  CHECK(to_string(diagnostics.all()[0]) == "plan.yaml:14:9: error: tp=3 does not divide heads=32");
  CHECK(to_string(diagnostics.all()[1]) == "plan.yaml: warning: no NIC");
  CHECK(diagnostics.error_count() == 1);
}

TEST_CASE("what several cases take from one place is said once") {
  const auto file = std::make_shared<const std::string>("a.yaml"), same = std::make_shared<const std::string>("a.yaml");
  Diagnostics diagnostics;
  diagnostics.error({file, 2, 3}, message("unknown key"));
  diagnostics.error({same, 2, 3}, message("unknown key"));
  CHECK(diagnostics.all().size() == 1);
  CHECK(diagnostics.error_count() == 2);
  diagnostics.warning({file, 2, 3}, message("unknown key"));
  diagnostics.error({file, 2, 4}, message("unknown key"));
  diagnostics.error({file, 2, 3}, message("another"));
  CHECK(diagnostics.all().size() == 4);
  // Without a place it may be of two things.
  diagnostics.error({}, message("wrong"));
  diagnostics.error({}, message("wrong"));
  CHECK(diagnostics.all().size() == 6);
}

TEST_CASE("suggestions are near words only") {
  CHECK(closest("a100-sxm4-80g", {"a100-sxm4-80gb", "h100-sxm5-80gb", "t4"}).front() == "a100-sxm4-80gb");
  CHECK(closest("quantum", {"a100-sxm4-80gb", "t4"}).empty());
  CHECK(did_you_mean("micro_bach", {"micro_batch", "tp"}).english() == "; did you mean 'micro_batch'?");
}
