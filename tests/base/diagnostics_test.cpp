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

TEST_CASE("suggestions are near words only") {
  CHECK(closest("a100-sxm4-80g", {"a100-sxm4-80gb", "h100-sxm5-80gb", "t4"}).front() == "a100-sxm4-80gb");
  CHECK(closest("quantum", {"a100-sxm4-80gb", "t4"}).empty());
  CHECK(did_you_mean("micro_bach", {"micro_batch", "tp"}).english() == "; did you mean 'micro_batch'?");
}
