#include <doctest/doctest.h>

#include "tests/cli/question.h"

using namespace foretrain::testing;
using nlohmann::json;

TEST_CASE("advise: from one card to the cluster, the same for any number of threads") {
  const Question q;
  const Outcome o = run_program("advise " + q.file + " --case four");
  CHECK(o.status == 0);
  CHECK(contains(o.out, "One card is enough"));
  CHECK(contains(o.out, "2 free to try there"));
  CHECK(contains(o.out, "3 then more hardware"));
  const Outcome one = run_program("advise " + q.file + " --case four --deadline 1d --json - --threads 1");
  CHECK(one.out == run_program("advise " + q.file + " --case four --deadline 1d --json - --threads 3").out);
  CHECK(json::parse(one.out)["cases"][0]["sizes"].size() == 3);
  for (const char* wrong : {"--deadline soon", "--deadline -3d", "--tokens many", "--mean-tokens 0"}) {
    CAPTURE(wrong);
    const Outcome refused = run_program("advise " + q.file + " " + wrong);
    CHECK(refused.status == 2);
    CHECK(refused.out == "");
  }
}
