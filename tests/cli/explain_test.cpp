#include <doctest/doctest.h>

#include "tests/cli/question.h"

using namespace foretrain::testing;
using nlohmann::json;

TEST_CASE("explain: table and JSON of every case, the same for any number of threads") {
  const Question q;
  const Outcome table = run_program("explain " + q.file);
  CHECK(table.status == 0);
  CHECK(table.err == "");
  for (const char* part : {"where the step goes", "critical path", "if it were faster", "with another setting",
                           "FlashAttention", "where stages differ"})
    CHECK_MESSAGE(contains(table.out, part), part);
  const Outcome one = run_program("explain " + q.file + " --json - --threads 1");
  CHECK(one.out == run_program("explain " + q.file + " --json - --threads 4").out);
  const json answer = json::parse(one.out);
  REQUIRE(answer["cases"].size() == 2);
  for (const json& c : answer["cases"]) {
    double elasticities = c["not_shortened"];
    for (const json& rate : c["hardware"]) {
      elasticities += rate["elasticity"].get<double>();
      CHECK(rate["twice"]["gain"].get<double>() >= -1e-5);
    }
    CHECK(elasticities == doctest::Approx(1).epsilon(1e-9));
    double held = 0;
    for (const json& seconds : c["critical_path"]["held_s"]) held += seconds.get<double>();
    CHECK(held == doctest::Approx(c["step_time_s"].get<double>()).epsilon(1e-9));
  }
  CHECK(answer["cases"][1]["stages"].size() == 2);
}

TEST_CASE("explain --figure: formula, inputs and result; unknown names get a suggestion") {
  const Question q;
  Outcome o = run_program("explain " + q.file + " --case four --figure mfu --figure tokens_per_s");
  CHECK(o.status == 0);
  CHECK(contains(o.out, "mfu = F / (T n P) = 0."));
  CHECK(contains(o.out, "tokens_per_s = B s / T = "));
  CHECK(json::parse(run_program("explain " + q.file + " --figure mfu --json -").out)["cases"].size() == 2);
  o = run_program("explain " + q.file + " --figure mfo --json -");
  CHECK(o.status == 2);
  CHECK(o.out == "");
  CHECK(contains(o.err, "did you mean 'mfu'"));
}
